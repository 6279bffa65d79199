"""Expressions of tensors, for everything between convolutions: problems `map`, `reduce`, `matmul` and `attention`, and
what they are made of."""

from __future__ import annotations

from qconv.expression.attention import Attention
from qconv.expression.function import FUNCTIONS
from qconv.expression.index import Axis, Index, flat, unflat
from qconv.expression.map import Map
from qconv.expression.matmul import MatMul
from qconv.expression.node import Call, Fold, Guard, Load, Node, Number, Position, call
from qconv.expression.problem import Operand
from qconv.expression.reduce import Reduce

__all__ = [
    "FUNCTIONS",
    "Attention",
    "Axis",
    "Call",
    "Fold",
    "Guard",
    "Index",
    "Load",
    "Map",
    "MatMul",
    "Node",
    "Number",
    "Operand",
    "Position",
    "Reduce",
    "call",
    "flat",
    "unflat",
]
