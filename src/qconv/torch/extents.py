"""Extents of an exported graph: integers, or the text of an expression of dynamic integers, such as `2*s0 + 1`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qconv.op import quoted

Extent = int | str
# By the text of an extent: an integer, or PyTorch's symbolic one.
Known = Mapping[str, Any]

OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def extent_of(size: Any) -> Extent:
    """Return the extent of one of PyTorch's sizes."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_Integer else str(expression)


def hint_of(size: Any) -> int | None:
    """Return a size of the graph's own example; None where there is none."""
    hint = size if isinstance(size, int) else size.node.hint
    return None if hint is None else int(hint)


def known_extents(declared: Sequence[Sequence[Extent]], shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the values of the dynamic extents of inputs with these shapes."""
    known: dict[str, Any] = {}
    for extents, shape in zip(declared, shapes, strict=True):
        if len(extents) != len(shape):
            raise ValueError(f"an input has the shape {tuple(shape)}; the expression reads one of {tuple(extents)}")
        for extent, size in zip(extents, shape, strict=True):
            if isinstance(extent, str):
                known[extent] = size
            elif extent != size:
                raise ValueError(f"an input has the shape {tuple(shape)}; the expression reads one of {tuple(extents)}")
    return known


def value_of(extent: Extent, known: Known) -> Any:
    """Return the value of an extent. Raise ValueError where it does not follow from the known ones."""
    if isinstance(extent, int):
        return extent
    if extent in known:
        return known[extent]
    return _computed(ast.parse(extent, mode="eval").body, known)


def _computed(node: ast.expr, known: Known) -> Any:
    text = ast.unparse(node)
    if text in known:
        return known[text]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_computed(node.operand, known)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_computed(node.left, known), _computed(node.right, known))
    raise ValueError(
        f"the extent {quoted(text)} does not follow from those of the inputs, {', '.join(known) or 'none'}"
    )
