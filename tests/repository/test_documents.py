"""Everything that the documents tell a reader to run exists: scripts, options, subcommands, files and links."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import pytest
from document_blocks import DOCUMENTS

from qconv.cli.command_line import commands

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
SHELLS = ("sh", "bash", "console")
PYTHON = re.compile(r"(?:\.venv/bin/)?python3?")
INPUT = re.compile(r".*\.(?:csv|json|py)")
# Options of our scripts whose value is a file that they write.
WRITES = ("--json", "--write", "--out", "--record")
# Words that stand for the reader's own: LAYERS.csv, DIR, KEY.
PLACEHOLDER = re.compile(r"[A-Z_]+(?:\.\w+)?")
PYTEST_OPTIONS = {"--dist", "--junitxml", "-q", "-x", "-s", "-m", "-n", "-k", "--regenerate-golden"}


@dataclass(frozen=True)
class Command:
    place: str  # document and line
    words: tuple[str, ...]
    whole: bool  # in a block of its own, to be copied as it is; otherwise quoted in a sentence


def commands_of(text: str, name: str) -> Iterator[Command]:
    """Yield every line of a shell block, and the backquoted text in sentences."""

    def place(at: int) -> str:
        return f"{name}:{text.count(chr(10), 0, at) + 1}"

    for block in FENCE.finditer(text):
        if block[1] in SHELLS:
            at = block.start(2)
            # A command may continue in the next line.
            for line in block[2].replace("\\\n", "  ").splitlines(keepends=True):
                words = shlex.split(line, comments=True)
                yield from (Command(place(at), tuple(part), True) for part in parts(words))
                at += len(line)
    prose = FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    for span in SPAN.finditer(prose):
        if (words := span_words(span[1], Path(name).parent)) is not None:
            yield Command(place(span.start()), words, False)


def parts(words: list[str]) -> Iterator[list[str]]:
    """Yield the commands between `&&`."""
    while "&&" in words:
        yield words[: words.index("&&")]
        words = words[words.index("&&") + 1 :]
    if words:
        yield words


def span_words(span: str, folder: Path) -> tuple[str, ...] | None:
    """Return the words of a quoted command, or None. `layers.py --time` in bench/README.md is a script of bench."""
    if not re.match(r"(\.venv/bin/|python |pytest |compute-sanitizer |qconv-tune |\.ci/run|\w+\.py( |$))", span):
        return None
    words = [word.strip("[]") for word in shlex.split(span) if word != "..."]
    if re.fullmatch(r"\w+\.py", words[0]):
        if not (ROOT / folder / words[0]).is_file() or len(words) == 1:
            return None  # the name of a module in a sentence
        words = ["python", str(folder / words[0]), *words[1:]]
    return tuple(words)


@lru_cache
def parser_of(script: str) -> argparse.ArgumentParser:
    """Return a parser from the script's `add_argument` calls, which are read but not run, as some scripts have heavy
    imports."""
    parser = argparse.ArgumentParser(prog=script, exit_on_error=False)
    for call in sorted(argument_calls(ROOT / script), key=lambda call: call.lineno):
        names = [ast.literal_eval(name) for name in call.args]
        kept: dict[str, Any] = {
            word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg in ("action", "nargs", "dest")
        }
        if any(word.arg == "required" for word in call.keywords):
            kept["required"] = True
        parser.add_argument(*names, **kept)
    return parser


def argument_calls(script: Path) -> list[ast.Call]:
    """Return the calls in the script, and in the neighbouring modules whose `parser_of` or `add_filters` it calls; if
    there are none, in the modules that it imports, because two comparisons share theirs."""
    tree = ast.parse(script.read_text())
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
    ]
    calls = {"parser_of", "add_filters"}
    beside = [
        node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (not found or calls & {one.name for one in node.names})
    ]
    imported = (script.with_name(f"{name}.py") for name in beside)
    return found + [call for module in imported if module.is_file() for call in argument_calls(module)]


def wrong_with(command: Command, written: set[str]) -> list[str]:
    """Return one sentence for everything that a reader could not do. Files that it writes are added to `written`."""
    program, *rest = command.words
    if PYTHON.fullmatch(program):
        if rest[:2] == ["-m", "pytest"]:
            return wrong_with_pytest(rest[2:])
        if rest[0] == "-m":
            return []  # an option of Python itself
        return wrong_with_script(rest[0], rest[1:], command.whole, written)
    if Path(program).name == "pytest":
        return wrong_with_pytest(rest)
    if program == "compute-sanitizer":
        return wrong_with(Command(command.place, tuple(rest[rest.index("python") :]), False), written)
    if Path(program).name == "qconv-tune":
        return wrong_with_tune(rest)
    return [] if (ROOT / program).is_file() or not program.startswith(".ci") else [f"{program} does not exist"]


def wrong_with_script(script: str, words: list[str], whole: bool, written: set[str]) -> list[str]:
    if not (ROOT / script).is_file():
        return [f"{script} does not exist"]
    parser, said = parser_of(script), []
    known = {option for action in parser._actions for option in action.option_strings}
    said += [f"{script} has no {word}" for word in (each.split("=")[0] for each in words) if is_option(word, known)]
    if whole and not said:
        try:
            parser.parse_args(words)
        except (argparse.ArgumentError, SystemExit) as error:
            said.append(f"{script} refuses its arguments: {error}")
    for before, word in zip(["", *words], words, strict=False):
        if before in WRITES:
            written.add(word)
        elif INPUT.fullmatch(word) and not (PLACEHOLDER.fullmatch(word) or word in written or (ROOT / word).is_file()):
            said.append(f"{word} does not exist, and no command before writes it")
    return said


def is_option(word: str, known: set[str]) -> bool:
    """Return true for a word that looks like an option but is unknown."""
    return word.startswith("--") and word not in known


def wrong_with_pytest(words: list[str]) -> list[str]:
    said = [
        f"pytest is given {word}, which this test does not know" for word in words if is_option(word, PYTEST_OPTIONS)
    ]
    return said + [
        f"{word} does not exist" for word in words if "/" in word and not (ROOT / word.split("::")[0]).exists()
    ]


def wrong_with_tune(words: list[str]) -> list[str]:
    command: click.Command = commands
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            return [f"qconv-tune has no command {name}"]
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "--version"}
    return [f"qconv-tune {command.name} has no {word}" for word in rest if is_option(word.split("=")[0], known)]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_can_be_run(name: str) -> None:
    written: set[str] = set()
    said = [
        f"{command.place}: {wrong}"
        for command in commands_of((ROOT / name).read_text(), name)
        for wrong in wrong_with(command, written)
    ]
    assert not said, "\n".join(said)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    text = FENCE.sub("", (ROOT / name).read_text())
    links = [link for link in LINK.findall(text) if "://" not in link]
    gone = [link for link in links if not (ROOT / name).parent.joinpath(link).exists()]
    assert not gone, f"{name} links to what does not exist: {gone}"


def test_commands_are_found() -> None:
    """As many as a reader sees; with fewer, nothing would be checked."""
    pages = ("README.md", "docs/tasks/tune.md", "bench/README.md")
    found = {name: list(commands_of((ROOT / name).read_text(), name)) for name in pages}
    assert sum(command.whole for command in found["README.md"]) >= 3
    assert sum(not command.whole for name in pages[:2] for command in found[name]) >= 5
    assert sum(command.whole and command.words[0] == "python" for command in found["bench/README.md"]) >= 9


REFUSED = {
    "python bench/gone.py": "bench/gone.py does not exist",
    "python bench/plot.py --to x bench/results/nvidia-h200/dense.json": "bench/plot.py has no --to",
    "python bench/layers.py bench/workloads/layers.csv --out x": "the following arguments are required: --suite",
    "python bench/zero_points.py --layers layers.csv --out x": "layers.csv does not exist, and no command before",
    "python -m pytest tests/gone.py": "tests/gone.py does not exist",
    "python -m pytest --no": "pytest is given --no",
    "qconv-tune tuen": "qconv-tune has no command tuen",
    "qconv-tune db merge --al": "qconv-tune merge has no --al",
    ".ci/walk": ".ci/walk does not exist",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_run_is_named(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = commands_of(f"\n```sh\n{line}\n```\n", "x.md")
    assert command.place == "x.md:3"
    (said,) = wrong_with(command, set())
    assert REFUSED[line] in said + capsys.readouterr().err


def test_a_file_that_an_earlier_command_writes_may_be_read() -> None:
    first, second = (
        f"python bench/untuned.py bench/workloads/layers.csv {way} old.json" for way in ("--write", "--against")
    )
    written: set[str] = set()
    for command in commands_of(f"```sh\n{first}\n{second}\n```\n", "x.md"):
        assert wrong_with(command, written) == []
    assert wrong_with(next(commands_of(f"```sh\n{second}\n```\n", "x.md")), set()) != []
