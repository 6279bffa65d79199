"""The integer ops between convolutions: the problems, their arithmetic as data, and their oracles."""

from __future__ import annotations

from qconv.tensor_ops.argmax import ArgMax
from qconv.tensor_ops.binary import Add, Binary, Mul
from qconv.tensor_ops.concat import Concat
from qconv.tensor_ops.nms import NonMaxSuppression
from qconv.tensor_ops.pooling import AveragePool, GlobalAveragePool, MaxPool
from qconv.tensor_ops.shuffle import ChannelShuffle
from qconv.tensor_ops.table import Table

__all__ = [
    "Add",
    "ArgMax",
    "AveragePool",
    "Binary",
    "ChannelShuffle",
    "Concat",
    "GlobalAveragePool",
    "MaxPool",
    "Mul",
    "NonMaxSuppression",
    "Table",
]
