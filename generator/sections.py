"""Sections of a prelude: C++ that only those kernels contain that want it.

    //% section "matrices", "copies"
    ...
    //% section
    ...
    //% endsections

The text up to the next `section` stands in a kernel that wants one of the features named; after a `section` without
names, in every kernel.
"""

from __future__ import annotations

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser


class Sections(Extension):
    tags = {"section"}  # noqa: RUF012 (the base class declares it of an instance)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        while parser.stream.current.value != "endsections":
            line = next(parser.stream).lineno
            wanted = _is_wanted(parser, line)
            body = parser.parse_statements(("name:section", "name:endsections"))
            found.append(nodes.If(wanted, body, [], [], lineno=line))
        next(parser.stream)
        return found


def _is_wanted(parser: Parser, line: int) -> nodes.Expr:
    """Return the condition of the features on the rest of the directive's line."""
    if parser.stream.current.type == "block_end":
        return nodes.Const(True, lineno=line)
    features = parser.parse_tuple()
    names = features.items if isinstance(features, nodes.Tuple) else [features]
    wants = nodes.Name("wants", "load", lineno=line)
    tests = [nodes.Compare(name, [nodes.Operand("in", wants)], lineno=line) for name in names]
    wanted: nodes.Expr = tests[0]
    for test in tests[1:]:
        wanted = nodes.Or(wanted, test, lineno=line)
    return wanted
