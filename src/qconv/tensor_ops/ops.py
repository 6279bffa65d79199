"""The ops of this package."""

from __future__ import annotations

from qconv.op import Op
from qconv.tensor_ops import argmax, binary_ops, concat, pooling_ops, shuffle, table

OPS: tuple[Op, ...] = (*binary_ops.OPS, table.OP, concat.OP, *pooling_ops.OPS, argmax.OP, shuffle.OP)
