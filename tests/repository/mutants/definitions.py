"""The functions and types that a file defines, and where: in Python, and in C++ with or without Jinja."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePath

# The begin of a C++ definition: a type, or a function's name; both are followed by a brace before a semicolon.
CPP_TYPE = re.compile(r"\b(?:struct|class|union|enum|namespace) (?:alignas\([^)]*\) |class )?(\w+)")
CPP_FUNCTION = re.compile(r"\b(?!__|alignas\b|decltype\b|defined\b)([A-Za-z_]\w*)\(")
CPP_STATEMENT = re.compile(r" *(?:if|for|while|switch|return|else|do|case|asm|static_assert|using|//|#|\})")
CPP_INDENT = re.compile(r" *")


@dataclass(frozen=True)
class Definition:
    names: tuple[str, ...]  # its own last, behind those that it is nested in
    begin: int
    end: int


def definitions_in(path: PurePath, text: str) -> list[Definition]:
    if path.suffix == ".py":
        return _in_python(text)
    return _in_cpp(text) if path.suffix in (".j2", ".h", ".cpp", ".in") else []


def _in_python(text: str) -> list[Definition]:
    begins = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    found: list[Definition] = []

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue
            inner = names
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*names, child.name)
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                assert child.end_lineno is not None
                found.append(Definition(inner, begins[first - 1], begins[child.end_lineno]))
            visit(child, inner)

    visit(ast.parse(text), ())
    return found


def _in_cpp(text: str) -> list[Definition]:
    """By the layout of this repository: a definition ends with the first brace that is indented as its first line."""
    found: list[Definition] = []
    begin = 0
    for line in text.splitlines(keepends=True):
        name = None if CPP_STATEMENT.match(line) else CPP_TYPE.search(line) or CPP_FUNCTION.search(line)
        opened = re.compile(r"[;{]").search(text, begin + name.end()) if name else None
        if name and opened and opened[0] == "{":
            end = _end_of_cpp(text, begin, opened.start())
            outer = [each.names[-1] for each in found if each.end > begin]
            found.append(Definition((*outer, name[1]), begin, end))
        begin += len(line)
    return found


def _end_of_cpp(text: str, begin: int, brace: int) -> int:
    end = text.find("\n", brace) + 1 or len(text)
    if text.count("{", brace, end) == text.count("}", brace, end):
        return end
    indent = CPP_INDENT.match(text, begin)
    assert indent
    closing = re.compile(rf"^ {{0,{len(indent[0])}}}\}}.*\n?", re.M).search(text, end)
    return closing.end() if closing else len(text)
