"""Folds of rows: means and sums over axes, softmax and normalizations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from qconv.torch.pattern import Unmatched
from qconv.torch.translation.node_layers import NodeLayers, Translate


def _axes(layers: NodeLayers, name: str = "dim") -> list[int]:
    """Return the axes over which a node folds: all of them if none is given."""
    rank = len(layers.of("self").shape)
    given = layers.value(name) if name in layers.given else None
    axes = [given] if isinstance(given, int) else list(given or ())
    return sorted(axis % rank for axis in axes) if axes else list(range(rank))


def _fold(op: str, layers: NodeLayers) -> None:
    """Translate a fold, which PyTorch computes in the type of the output."""
    if not layers.of("self").shape:
        raise Unmatched("it folds a single number")
    keeps = bool(layers.given.get("keepdim", False))
    layers.result(op, layers.cast(layers.x("self"), layers.dtype), axes=_axes(layers), keepdims=int(keeps))


def _vector_norm(layers: NodeLayers) -> None:
    op = {1: "ReduceL1", 2: "ReduceL2"}.get(layers.value("ord"))
    if op is None:
        raise Unmatched(f"its norm is of order {layers.value('ord')}; expressions have those of orders 1 and 2")
    _fold(op, layers)


def _arg(op: str, layers: NodeLayers) -> None:
    if layers.value("dim") is None:
        raise Unmatched("it is over all axes; expressions have one")
    (axis,) = _axes(layers)
    layers.result(op, layers.x("self"), axis=axis, keepdims=int(layers.value("keepdim")))


def _softmax(op: str, layers: NodeLayers) -> None:
    layers.result(op, layers.cast(layers.x("self"), layers.dtype), axis=layers.axis("dim"))


def _layer_norm(layers: NodeLayers) -> None:
    axis = -len(layers.value("normalized_shape"))
    inputs = [layers.x(name) if layers.given[name] is not None else "" for name in ("input", "weight", "bias")]
    layers.result("LayerNormalization", *inputs, axis=axis, epsilon=float(layers.value("eps")))


def _rms_norm(layers: NodeLayers) -> None:
    epsilon = layers.value("eps")
    if epsilon is None:
        epsilon = float(np.finfo(layers.dtype).eps)
    inputs = [layers.x("input")] + ([] if layers.given["weight"] is None else [layers.x("weight")])
    layers.result("RMSNormalization", *inputs, axis=-len(layers.value("normalized_shape")), epsilon=float(epsilon))


def _of_channels(layers: NodeLayers, name: str, value: float) -> str:
    """Return a scale or a bias of the channels, or the one that changes nothing."""
    if layers.given[name] is not None:
        return layers.x(name)
    channels = layers.shape[1]
    if not isinstance(channels, int):
        raise Unmatched("its channels are dynamic")
    return layers.numbers([value] * channels, layers.dtype)


def _of_images(op: str, layers: NodeLayers) -> None:
    """Translate a normalization of each image, over a group of channels or one."""
    if not layers.given.get("use_input_stats", True):
        raise Unmatched("it normalizes by running statistics")
    scale_and_bias = _of_channels(layers, "weight", 1.0), _of_channels(layers, "bias", 0.0)
    groups = {"num_groups": int(layers.value("num_groups"))} if "num_groups" in layers.given else {}
    layers.result(op, layers.x("input"), *scale_and_bias, epsilon=float(layers.value("eps")), **groups)


def _batch_norm(layers: NodeLayers) -> None:
    """Translate a batch norm of inference: a factor and a summand per channel, which are computed once, as those of
    ONNX's are."""
    if layers.value("training"):
        raise Unmatched("a batch norm that trains computes the mean of the batch")
    names = ("weight", "bias", "running_mean", "running_var")
    scale, bias, mean, variance = (layers.tensor_value(name) for name in names)
    if mean is None or variance is None:
        raise Unmatched("it has no running statistics")
    factors = (1.0 if scale is None else scale) / np.sqrt(variance + layers.value("eps"))
    summands = (0.0 if bias is None else bias) - mean * factors
    shape = (mean.size, *(1,) * (layers.rank - 2))
    factor, summand = (layers.buffer(each, shape) for each in (factors, summands))
    layers.result("Add", layers.made("Mul", (layers.x("input"), factor), layers.dtype), summand)


FOLDS = {
    "aten.mean.dim": "ReduceMean",
    "aten.mean.default": "ReduceMean",
    "aten.sum.dim_IntList": "ReduceSum",
    "aten.sum.default": "ReduceSum",
    "aten.amax.default": "ReduceMax",
    "aten.amin.default": "ReduceMin",
    "aten.prod.default": "ReduceProd",
    "aten.prod.dim_int": "ReduceProd",
    "aten.logsumexp.default": "ReduceLogSumExp",
}
TABLE: Mapping[str, Translate] = {
    **{name: partial(_fold, op) for name, op in FOLDS.items()},
    "aten.linalg_vector_norm.default": _vector_norm,
    "aten.argmax.default": partial(_arg, "ArgMax"),
    "aten.argmin.default": partial(_arg, "ArgMin"),
    "aten.softmax.int": partial(_softmax, "Softmax"),
    "aten._softmax.default": partial(_softmax, "Softmax"),
    "aten.log_softmax.int": partial(_softmax, "LogSoftmax"),
    "aten._log_softmax.default": partial(_softmax, "LogSoftmax"),
    "aten.layer_norm.default": _layer_norm,
    "aten.rms_norm.default": _rms_norm,
    "aten.group_norm.default": partial(_of_images, "GroupNormalization"),
    "aten.instance_norm.default": partial(_of_images, "InstanceNormalization"),
    "aten.batch_norm.default": _batch_norm,
}
