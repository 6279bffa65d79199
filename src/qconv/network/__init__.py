"""Networks of layers and tensors: which layers run on this project's kernels, which run elsewhere, and the run itself.

A front end (today ONNX) reads its model into a `Network` and supplies a way to run the layers that no kernel computes.
"""

from __future__ import annotations

from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.served import Reason, Served, Unserved
from qconv.network.graph.value import Value
from qconv.network.layers.argmax import fold_dequantized
from qconv.network.layers.boundary import serve_ends
from qconv.network.layers.byte_chain import fold_byte_chains
from qconv.network.layers.concatenation import one_output_each
from qconv.network.layers.convolution import IntegerConvolution, is_of_integers, read_layer
from qconv.network.layers.dequantized import fold_dequantized_products
from qconv.network.layers.dynamic import serve_dynamic, with_scalars
from qconv.network.layers.folds import fold_channel_constants, fold_clamps, fold_sums, fold_tables_behind
from qconv.network.layers.integers import fold_integers
from qconv.network.layers.movement import serve_moving
from qconv.network.layers.narrowing import narrow_products
from qconv.network.layers.pixel_shuffles import fold_pixel_shuffles
from qconv.network.layers.shuffle import fold_shuffles
from qconv.network.layers.suppression import serve_suppressions
from qconv.network.layers.table import fold_tables
from qconv.network.layers.zero_points import decompose_zero_points, is_of_product
from qconv.network.run.arrange import Arranger
from qconv.network.run.contender import Contender, Parts
from qconv.network.run.memory import Memory
from qconv.network.run.partition import Segment, partition
from qconv.network.run.region import Choices, Region, find_regions
from qconv.network.run.report import Explanation, LayerReport, LayerTime, Profile
from qconv.network.run.runner import Runner

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
    "Reason",
    "Region",
    "Runner",
    "Segment",
    "Served",
    "Tensor",
    "Unserved",
    "Value",
    "decompose_zero_points",
    "find_regions",
    "fold_byte_chains",
    "fold_channel_constants",
    "fold_clamps",
    "fold_dequantized",
    "fold_dequantized_products",
    "fold_integers",
    "fold_pixel_shuffles",
    "fold_shuffles",
    "fold_sums",
    "fold_tables",
    "fold_tables_behind",
    "is_of_integers",
    "is_of_product",
    "narrow_products",
    "one_output_each",
    "partition",
    "read_layer",
    "serve_dynamic",
    "serve_ends",
    "serve_moving",
    "serve_suppressions",
    "with_scalars",
]
