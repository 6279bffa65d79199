"""Count unwanted constructs, and compare each count with its limit.

    python tests/repository/house.py                                # the table; status 1 if a count is not its limit
    python tests/repository/house.py --list "duplicated functions"  # what is counted, with file and line

A limit is the last count, and only decreases: a change that leaves fewer lowers it, and a count above it fails, with
its places. A count that LIMITS does not name has the limit zero. This file is next to test_ladder.py, the other rule
about sources, and not in bench/, which measures kernels.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from io import StringIO
from pathlib import Path
from token import COMMENT as COMMENT_TOKEN
from token import NAME
from tokenize import TokenInfo, generate_tokens

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("src", "generator", "instances", "templates", "tune_db", "tuner", "bench", "examples")
# Golden sources are generated.
WRITTEN_ELSEWHERE = "tests/golden/"

MOST_FUNCTION_LINES = 60
MOST_TEMPLATE_COLUMNS = 110
# A template reads as C++: over all, one line in this many may be a directive, and of one template a quarter.
LINES_PER_DIRECTIVE = 11
LINES_PER_DIRECTIVE_OF_ONE = 4
# Two functions are a duplicated pair if half of the shorter one's runs of five tokens occur in the other, or
# DUPLICATE_RUNS of them. Names count; comments, docstrings and layout do not. Short functions are alike by chance, and
# one function may be defined within the other.
RUN_TOKENS = 5
LEAST_TOKENS = 60
DUPLICATE_SHARE = 0.5
DUPLICATE_RUNS = 200

# Words of this project, and the field's words for them. The former must not be in identifiers, except names of tests,
# which are sentences.
FIELD_WORDS = {
    "agreed": "warp_uniform",
    "apart": "unfused",
    "band": "tile_swizzle_width",
    "bands": "tile_swizzle_width",
    "cargo": "staged tile",
    "giver": "producer",
    "granule": "chunk",
    "granules": "chunks",
    "holds": "weights_in_smem",
    "inbox": "mbarrier",
    "piece": "vector",
    "pieces": "vectors",
    "residents": "blocks_per_sm",
    "shares": "cluster_blocks",
    "stages": "pipeline_stages, layers or phases",
    "tails": "split_last_wave",
    "taker": "consumer",
}
# AMD's manuals call the allocation unit of registers a granule.
FIELD_NAMES = ("register_granule", "pipeline_stages")

LIMITS = {
    "functions over 60 lines": 0,
    "dict[str, Any] in generator/": 0,
    "roles[...] in generator/": 0,
    'constants["..."] in generator/': 0,
    "template lines over 110 columns": 0,
    "directives beyond one template line in 11": 0,
    "templates with over a quarter of directives": 4,
    "C++ text in variables of templates": 0,
    "duplicated functions": 35,
    "words that the field does not use": 0,
    "sentences without a subject": 0,
    "words that say nothing": 0,
}

# Words with which a comment or a docstring must not begin.
OPENING = re.compile(r"(What|Which|That|Of|Those|Where|Whether)\b")
# A count has a name (`pixels`), a ratio says which way is better, and TMA and L2 have names.
VAGUE = re.compile(r"\bso (many|much)\b(?! (that|as)\b)|\btimes less\b|\bcopy engine\b|\bsecond-level cache\b", re.I)

DIRECTIVE = re.compile(r"[ \t]*//%|.*<%")
ASSIGNMENT = re.compile(r"//%\s*set\s+\w+\s*=\s*(.*)")
# A string that is compared is a name.
COMPARED = re.compile(r"""("[^"]*"|'[^']*')\s+(not\s+)?in\b|[!=]=\s*("[^"]*"|'[^']*')""")
EXPRESSION = re.compile(r"""\$\{((?:"[^"]*"|'[^']*'|[^}"'])*)\}""")
STRING = re.compile(r""""[^"]*"|'[^']*'""")
TOKEN = re.compile(r"""[A-Za-z_]\w*|\d[\w.]*|"[^"]*"|'[^']*'|\S""")
COMMENT = re.compile(r"(?:^|(?<=\s))//(?!%)\s*(.*)")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SIGNATURE = re.compile(r'^( *)(?:template <[^>]*> )?(?:static |constexpr )*(?:__device__|__global__|extern "C")')


@dataclass(frozen=True)
class Found:
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Function:
    path: str
    name: str
    first: int
    last: int
    tokens: tuple[str, ...]

    def overlaps(self, other: Function) -> bool:
        """Return true if one is defined within the other."""
        return self.path == other.path and self.first <= other.last and other.first <= self.last

    def runs(self, numbers: dict[tuple[str, ...], int]) -> frozenset[int]:
        """Return the runs as numbers, equal for equal runs: they are compared much faster than tuples."""
        every = (self.tokens[i : i + RUN_TOKENS] for i in range(len(self.tokens) - RUN_TOKENS + 1))
        return frozenset(numbers.setdefault(run, len(numbers)) for run in every)


@lru_cache
def files(root: Path, *suffixes: str) -> Mapping[str, str]:
    """Return path -> text of all handwritten files, tests included."""
    found = (path for folder in (*PRODUCT, "tests") for path in sorted((root / folder).rglob("*")))
    named = {str(path.relative_to(root)): path for path in found if path.suffix in suffixes and path.is_file()}
    return {name: path.read_text() for name, path in named.items() if not name.startswith(WRITTEN_ELSEWHERE)}


@lru_cache
def definitions(root: Path) -> tuple[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef], ...]:
    """Return every Python function, with its path."""
    return tuple(
        (path, node)
        for path, text in files(root, ".py").items()
        for node in statements(parsed(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def names_and_comments(text: str) -> tuple[TokenInfo, ...]:
    return tuple(one for one in generate_tokens(StringIO(text).readline) if one.type in (NAME, COMMENT_TOKEN))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nested statements. Expressions contain no named functions, and make up most of a tree."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from statements(node)


def functions_too_long(root: Path) -> Iterator[Found]:
    for path, node in definitions(root):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > MOST_FUNCTION_LINES:
            yield Found(path, node.lineno, f"{node.name} has {lines} lines")


def lines_with(root: Path, folder: str, suffix: str, pattern: str) -> Iterator[Found]:
    for path, text in files(root, suffix).items():
        if path.startswith(folder):
            for number, line in enumerate(text.splitlines(), 1):
                yield from (Found(path, number, line.strip()) for _ in re.finditer(pattern, line))


def untyped_dicts(root: Path) -> Iterator[Found]:
    return lines_with(root, "generator/", ".py", r"dict\[str, Any\]")


def reads_of_roles(root: Path) -> Iterator[Found]:
    return lines_with(root, "generator/", ".py", r"\broles(\[|\.get\()")


def reads_of_constants(root: Path) -> Iterator[Found]:
    return lines_with(root, "generator/", ".py", r'\bconstants(\["|\.get\()')


def wide_lines(root: Path) -> Iterator[Found]:
    """Count lines of the template itself; another test limits the width of generated lines."""
    return lines_with(root, "templates/", ".j2", rf"^.{{{MOST_TEMPLATE_COLUMNS + 1},}}$")


def inline_conditionals(root: Path) -> Iterator[Found]:
    """Find `${ a if b else c }`, which a reader of C++ has to decode."""
    for path, text in files(root, ".j2").items():
        for expression in EXPRESSION.finditer(text):
            if re.search(r"\bif\b", STRING.sub("", expression[1])):
                yield Found(path, text.count("\n", 0, expression.start()) + 1, " ".join(expression[0].split()))


def directives(text: str) -> list[tuple[int, str]]:
    """Return the lines of a template that are Jinja's, with their numbers; a list in brackets may span several."""
    found, opened = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if opened > 0 or DIRECTIVE.match(line):
            found.append((number, line.strip()))
            opened += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
    return found


def templates(root: Path) -> Iterator[tuple[str, str]]:
    """Yield path and text of those of the product: tests have some of their own, which add a family to a copy."""
    yield from ((path, text) for path, text in files(root, ".j2").items() if path.startswith("templates/"))


def surplus_directives(root: Path) -> Iterator[Found]:
    """Find the directives that are too many over all: those of the templates with the largest shares of them."""
    found, lines = [], 0
    for path, text in templates(root):
        of_template = directives(text)
        lines += (of_lines := len(text.splitlines()))
        found += [(len(of_template) / of_lines, Found(path, number, line)) for number, line in of_template]
    found.sort(key=lambda one: (-one[0], one[1].path, one[1].line))
    yield from (one for _, one in found[: max(0, len(found) - lines // LINES_PER_DIRECTIVE)])


def templates_of_directives(root: Path) -> Iterator[Found]:
    for path, text in templates(root):
        count, lines = len(directives(text)), len(text.splitlines())
        if count * LINES_PER_DIRECTIVE_OF_ONE > lines:
            yield Found(path, 1, f"{count} directives in {lines} lines")


def variables_of_text(root: Path) -> Iterator[Found]:
    """Find assignments of text. C++ belongs in lines of its own, and the name of a template file in the plan's
    roles."""
    for path, text in files(root, ".j2").items():
        for found in ASSIGNMENT.finditer(text):
            if STRING.search(COMPARED.sub("", found[1])):
                yield Found(path, text.count("\n", 0, found.start()) + 1, found[0])


def duplicated_functions(root: Path) -> Iterator[Found]:
    """Find pairs of Python functions or of device functions in templates; those of tests are not counted."""
    numbers: dict[tuple[str, ...], int] = {}
    known = [(one, one.runs(numbers)) for one in functions(root) if len(one.tokens) >= LEAST_TOKENS]
    having: dict[int, list[int]] = defaultdict(list)  # by run of tokens, the earlier functions that have it
    for at, (other, others) in enumerate(known):
        shared = Counter(before for run in others for before in having[run])
        for before, common in sorted(shared.items()):
            one, runs = known[before]
            share = common / min(len(runs), len(others))
            if (share >= DUPLICATE_SHARE or common >= DUPLICATE_RUNS) and not one.overlaps(other):
                where = f"{other.name} of {other.path}:{other.first}"
                yield Found(one.path, one.first, f"{one.name} has {share:.0%} of the shorter in common with {where}")
        for run in others:
            having[run].append(at)


def functions(root: Path) -> Iterator[Function]:
    for path, node in definitions(root):
        if not path.startswith("tests/"):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            said = "\n".join(ast.unparse(statement) for statement in body)
            yield Function(path, node.name, node.lineno, node.end_lineno or node.lineno, tuple(TOKEN.findall(said)))
    for path, text in files(root, ".j2").items():
        yield from template_functions(path, text)


def template_functions(path: str, text: str) -> Iterator[Function]:
    """Yield a template's functions. By convention, a function ends at the first brace with the indentation of its
    beginning."""
    lines = text.splitlines()
    for first, line in enumerate(lines):
        if (begin := SIGNATURE.match(line)) is None:
            continue
        opens = next((i for i in range(first, len(lines)) if re.search(r"[;{}]\s*(//.*)?$", lines[i])), None)
        if opens is None or not re.search(r"\{\s*(//.*)?$", lines[opens]):
            continue
        last = next((i for i in range(opens + 1, len(lines)) if lines[i].startswith(begin[1] + "}")), None)
        if last is None:
            continue
        head = re.sub(r"__launch_bounds__\([^)]*\)", "", " ".join(lines[first : opens + 1]))
        name = re.search(r"(\w+|\$\{ ?\w+ ?\})\s*\(", head)
        body = re.sub(r"(?<!:)//(?!%).*", "", "\n".join(lines[opens + 1 : last]))
        yield Function(path, name[1] if name else "a function", first + 1, last + 1, tuple(TOKEN.findall(body)))


def foreign_words(root: Path) -> Iterator[Found]:
    """Find them in identifiers of Python, of templates and of the CPU device."""
    for path, line, name in identifiers(root):
        for word in {word.lower() for word in WORD.findall(name)} & FIELD_WORDS.keys():
            if name.lower() not in FIELD_NAMES and not name.startswith("test_"):
                yield Found(path, line, f"{name}: {word} is {FIELD_WORDS[word]}")


def identifiers(root: Path) -> Iterator[tuple[str, int, str]]:
    for path, text in files(root, ".py").items():
        for token in names_and_comments(text):
            if token.type == NAME:
                yield path, token.start[0], token.string
    for path, text in files(root, ".j2", ".h", ".cpp").items():
        for number, line in enumerate(text.splitlines(), 1):
            for name in re.findall(r"[A-Za-z_]\w*", STRING.sub("", COMMENT.sub("", line))):
                yield path, number, name


def subjectless(root: Path) -> Iterator[Found]:
    """Find comments and docstrings that begin with a relative clause, so that a reader has to search for the
    subject."""
    for path, line, said in sorted((*python_sentences(root), *template_comments(root))):
        if OPENING.match(said):
            yield Found(path, line, said)


def vague_words(root: Path) -> Iterator[Found]:
    """Find them in comments, docstrings, messages and documents."""
    for path, text in sorted({**files(root, ".py", ".j2", ".h", ".cpp"), **documents(root)}.items()):
        for number, line in enumerate(text.splitlines(), 1):
            for found in VAGUE.finditer(line):
                yield Found(path, number, f"{found[0]}: {line.strip()}")


@lru_cache
def documents(root: Path) -> Mapping[str, str]:
    """Return path -> text of every page."""
    found = (*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "tests").rglob("*.md"))
    return {str(path.relative_to(root)): path.read_text() for path in sorted(found)}


def python_sentences(root: Path) -> Iterator[tuple[str, int, str]]:
    """Yield the first lines of docstrings and of comments."""
    for path, text in files(root, ".py").items():
        tree = parsed(text)
        for node in (tree, *statements(tree)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
                said := ast.get_docstring(node)
            ):
                yield path, node.body[0].lineno, said.splitlines()[0]
        goes_on = 0  # the line in which a comment would continue
        for token in names_and_comments(text):
            if token.type == COMMENT_TOKEN:
                alone = token.line.strip() == token.string
                if not (alone and token.start[0] == goes_on):
                    yield path, token.start[0], token.string.lstrip("# ")
                goes_on = token.start[0] + 1 if alone else 0


def template_comments(root: Path) -> Iterator[tuple[str, int, str]]:
    for path, text in files(root, ".j2", ".h", ".cpp").items():
        goes_on = False
        for number, line in enumerate(text.splitlines(), 1):
            found = COMMENT.search(line)
            if found is not None and not (goes_on and line.strip().startswith("//")):
                yield path, number, found[1]
            goes_on = found is not None and line.strip().startswith("//")


MEASURES: dict[str, Callable[[Path], Iterator[Found]]] = {
    f"functions over {MOST_FUNCTION_LINES} lines": functions_too_long,
    "dict[str, Any] in generator/": untyped_dicts,
    "roles[...] in generator/": reads_of_roles,
    'constants["..."] in generator/': reads_of_constants,
    "inline conditionals": inline_conditionals,
    f"template lines over {MOST_TEMPLATE_COLUMNS} columns": wide_lines,
    f"directives beyond one template line in {LINES_PER_DIRECTIVE}": surplus_directives,
    "templates with over a quarter of directives": templates_of_directives,
    "C++ text in variables of templates": variables_of_text,
    "duplicated functions": duplicated_functions,
    "words that the field does not use": foreign_words,
    "sentences without a subject": subjectless,
    "words that say nothing": vague_words,
}
# Counted per file, under a name that begins with this.
BY_FILE = "inline conditionals"


def counted(root: Path) -> dict[str, list[Found]]:
    """Return the counts by name of the limit."""
    found: dict[str, list[Found]] = {}
    for name, measure in MEASURES.items():
        if name != BY_FILE:
            found[name] = list(measure(root))
            continue
        for one in measure(root):
            found.setdefault(f"{name} of {one.path}", []).append(one)
    return found


def wrong(found: Mapping[str, Sequence[Found]], limits: Mapping[str, int]) -> list[str]:
    """Report counts above their limits, with places, and counts below, so that the limit is lowered."""
    said = []
    for name in dict.fromkeys((*limits, *found)):
        here, limit = found.get(name, ()), limits.get(name, 0)
        if len(here) > limit:
            said.append("\n  ".join([f"{name}: {len(here)}, and {limit} is the limit", *map(str, here)]))
        elif len(here) < limit:
            remedy = f"write {len(here)}" if here else "leave its row out, or write 0"
            said.append(
                f"{name}: {len(here)}, fewer than the limit {limit}: {remedy} in LIMITS of tests/repository/house.py"
            )
    return said


def table(found: Mapping[str, Sequence[Found]], limits: Mapping[str, int]) -> str:
    names = sorted(dict.fromkeys((*limits, *found)), key=lambda name: name.startswith(BY_FILE))
    total = Counter({BY_FILE: sum(len(here) for name, here in found.items() if name.startswith(BY_FILE))})
    width = max(map(len, names))
    lines = [f"{'count':<{width}} {'now':>5} {'limit':>6}"]
    lines += [f"{name:<{width}} {len(found.get(name, ())):5} {limits.get(name, 0):6}" for name in names]
    return "\n".join([*lines, f"{f'{BY_FILE}, all':<{width}} {total[BY_FILE]:5}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=MEASURES, metavar="COUNT", help=f"one of: {', '.join(MEASURES)}")
    options = parser.parse_args()
    if options.list is not None:
        print(*MEASURES[options.list](ROOT), sep="\n")
        return
    found = counted(ROOT)
    print(table(found, LIMITS))
    if said := wrong(found, LIMITS):
        sys.exit("\n".join(said))


if __name__ == "__main__":
    main()
