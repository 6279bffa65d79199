"""The definitions of a prelude that a kernel uses.

A prelude defines what any kernel may call, in `namespace tile`; the pages of expressions have `namespace scalar`. A
kernel contains the paragraphs of them that it uses, directly or through others: nobody reads or compiles the rest. A
paragraph ends at an empty line outside of braces. Types and constants begin with a capital letter, functions do not.
Functions of doubles are in kernels that have doubles: elsewhere they would be overloads that nobody calls.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

# A namespace, and a name within it.
Name = tuple[str, str]

# In the order in which a kernel has them.
LIBRARIES = ("tile", "scalar")
# Comments and literals name nothing.
_SILENCE = re.compile(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'")
_IDENTIFIER = re.compile(r"\w+")
# A function is called; what follows a dot or an arrow is a member, and what follows a type is defined.
_TYPES = "".join(rf"(?<!\b{name} )" for name in ("bool", "char", "double", "float", "int", "long", "unsigned", "void"))
_USED = re.compile(rf"(?:\b({'|'.join(LIBRARIES)})::)?(?<![.\w])(?<!->)([A-Z]\w*|{_TYPES}[a-z]\w*(?=[(<]))")
_DOUBLE, _TAKES_DOUBLE = re.compile(r"\bdouble\b"), re.compile(r"\(double\b")
_BRACKETS = re.compile(r"\{[^{}]*\}|\([^()]*\)")
_BRACES, _PARENTHESES = "\x01", "\x02"
_DEFINED = re.compile(
    rf"""\bstruct\s+(?:\w+{_PARENTHESES}\s*)?(\w+)
    | (?!__attribute__|__align__|alignas)\b(\w+){_PARENTHESES}
    | \b(\w+)(?:<[^<>;]*>)?\s*=
    | \#define\s+(\w+)""",
    re.VERBOSE,
)


@dataclass(frozen=True, eq=False)
class Paragraph:
    """Definitions without an empty line between them, with the comments above them."""

    text: str
    defines: frozenset[Name]
    uses: frozenset[Name]
    has_doubles: bool
    takes_doubles: bool

    @classmethod
    def of(cls, text: str, namespace: str) -> Paragraph:
        code = _SILENCE.sub("", text)
        uses = frozenset((found[1] or namespace, found[2]) for found in _USED.finditer(code))
        defines = frozenset((namespace, name) for name in _names(code))
        return cls(text, defines, uses, bool(_DOUBLE.search(code)), bool(_TAKES_DOUBLE.search(code)))


def used(text: str) -> str:
    """Return the text of a kernel without the paragraphs of its libraries that it does not use."""
    first, libraries, behind = _divided(text)
    own = "".join((first, *behind))
    roots = [(name, found) for name in libraries for found in _named(name, own)]
    every = [paragraph for of_library in libraries.values() for paragraph in of_library]
    reached = _reached(roots, [paragraph for paragraph in every if not paragraph.takes_doubles])
    if any(paragraph.has_doubles for paragraph in reached) or _has_doubles(own):
        reached = _reached(roots, every)
    texts = [first]
    for (name, of_library), rest in zip(libraries.items(), behind, strict=True):
        kept = [paragraph.text for paragraph in of_library if paragraph in reached]
        texts += ["\n\n".join([f"namespace {name} {{", *kept, f"}}  // namespace {name}\n"]) if kept else "", rest]
    return "".join(texts)


def _divided(text: str) -> tuple[str, dict[str, tuple[Paragraph, ...]], list[str]]:
    """Return the text before the libraries, the libraries, and the text behind each. A search for a fixed text is far
    faster than a pattern."""
    libraries, texts = {}, [text]
    for name in LIBRARIES:
        before, begins, rest = texts[-1].partition(f"namespace {name} {{\n")
        if begins:
            body, _, after = rest.partition(f"}}  // namespace {name}\n")
            libraries[name] = paragraphs(name, body)
            texts[-1:] = before, after
    return texts[0], libraries, texts[1:]


def _named(name: str, text: str) -> Iterator[str]:
    """Yield the names that the text has in a namespace."""
    for part in text.split(f"{name}::")[1:]:
        if (found := _IDENTIFIER.match(part)) is not None:
            yield found[0]


def _has_doubles(code: str) -> bool:
    return any(_DOUBLE.search(_SILENCE.sub("", line)) for line in code.splitlines() if "double" in line)


def _reached(roots: Sequence[Name], paragraphs: Iterable[Paragraph]) -> set[Paragraph]:
    """Return the paragraphs that define a root, or a name that another such paragraph uses."""
    defining: dict[Name, list[Paragraph]] = defaultdict(list)
    for paragraph in paragraphs:
        for name in paragraph.defines:
            defining[name].append(paragraph)
    reached: set[Paragraph] = set()
    asked = list(roots)
    while asked:
        for paragraph in defining.pop(asked.pop(), ()):
            if paragraph not in reached:
                reached.add(paragraph)
                asked += paragraph.uses
    return reached


@lru_cache(maxsize=256)
def paragraphs(namespace: str, text: str) -> tuple[Paragraph, ...]:
    return tuple(Paragraph.of(one, namespace) for one in _split(text))


def _split(text: str) -> Iterator[str]:
    """Yield the paragraphs of a namespace. A comment that has an empty line below it stands above the next one."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        code = _SILENCE.sub("", line)
        depth += code.count("{") - code.count("}")
        if line.strip() or depth > 0:
            lines.append(line)
        elif any(not one.startswith("//") for one in lines if one):
            yield "\n".join(lines).rstrip()
            lines = []
        elif lines:
            lines.append("")
    if lines:
        yield "\n".join(lines).rstrip()


def _names(code: str) -> Iterator[str]:
    """Yield the names that a paragraph defines in its namespace: those outside of braces and parentheses."""
    while (shorter := _BRACKETS.sub(lambda found: _BRACES if found[0][0] == "{" else _PARENTHESES, code)) != code:
        code = shorter
    for found in _DEFINED.finditer(code):
        yield next(filter(None, found.groups()))
