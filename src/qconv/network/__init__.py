"""A network as layers and tensors: which of them run on this project's kernels, which elsewhere, and the run itself.

The faces (ONNX today) read their models into a `Network` and give it a way to run what no kernel here computes.
"""

from __future__ import annotations

from qconv.network.argmax import fold_dequantized
from qconv.network.arrange import Arranger
from qconv.network.choices import Choices
from qconv.network.contender import Contender, Parts
from qconv.network.ends import serve_ends
from qconv.network.fold import fold_clamps
from qconv.network.fold_sum import fold_sums
from qconv.network.fold_table import fold_tables_behind
from qconv.network.graph import Layer, Network, Tensor
from qconv.network.integer import IntegerConvolution, read_layer
from qconv.network.joining import one_output_each
from qconv.network.memory import Memory
from qconv.network.moving import serve_moving
from qconv.network.partition import Segment, partition
from qconv.network.region import Region, find_regions
from qconv.network.report import Explanation, LayerReport, LayerTime, Profile
from qconv.network.runner import Runner
from qconv.network.served import Served, Unserved
from qconv.network.shuffle import fold_shuffles
from qconv.network.tabulate import fold_tables
from qconv.network.value import Value

__all__ = [
    "Arranger",
    "Choices",
    "Contender",
    "Explanation",
    "IntegerConvolution",
    "Layer",
    "LayerReport",
    "LayerTime",
    "Memory",
    "Network",
    "Parts",
    "Profile",
    "Region",
    "Runner",
    "Segment",
    "Served",
    "Tensor",
    "Unserved",
    "Value",
    "find_regions",
    "fold_clamps",
    "fold_dequantized",
    "fold_shuffles",
    "fold_sums",
    "fold_tables",
    "fold_tables_behind",
    "one_output_each",
    "partition",
    "read_layer",
    "serve_ends",
    "serve_moving",
]
