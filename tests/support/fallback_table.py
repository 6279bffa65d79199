"""A table of the ops of quantized networks that run in the fallback: `python tests/support/fallback_table.py`.

It covers five small networks of the usual kinds with seeded weights, and the three trained ones that
rapidocr-onnxruntime ships, in all formats of quantize_static, for inputs of known shapes. Nothing is compiled or
executed: `pytest -m slow tests/qconv/onnx` compares the bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import quantized_networks as networks
from onnx import version_converter

from qconv.device import open_device
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import choose
from qconv.instances.load.building import Place
from qconv.instances.load.serving import answered_by, is_in_sequence, open_layers
from qconv.network import Explanation
from qconv.onnx import Session
from qconv.op import Problem

# Images as small as the networks allow, so that the CPU device takes seconds.
TRAINED = {"ch_PP-OCRv4_det": (1, 3, 64, 96), "ch_PP-OCRv4_rec": (1, 3, 48, 96), "ch_ppocr_mobile": (1, 3, 48, 96)}

PARTS = tuple(product((*networks.NETWORKS, *TRAINED), networks.FORMATS))
# Has scales per channel, which those of the trained ones lack.
OPSET = 17
ALL = "all six"  # types, each per tensor and per channel
HEAD = ("| network | format | types, weights per | on kernels | elsewhere |", "|---|---|---|---|---|")


def load(name: str) -> Any:
    """Return the model, or None if the package is not installed."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        return None
    (path,) = Path(spec.origin).parent.glob(f"models/{name}*.onnx")
    return onnx.load(path)


def lift_constants(model: Any) -> None:
    """Turn nodes into initializers: quantize_static takes weights that are nodes for activations, and does not accept
    them in a QOperator model."""
    nodes = list(model.graph.node)
    for node in nodes:
        if node.op_type == "Constant":
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
    del model.graph.node[:]
    model.graph.node.extend(node for node in nodes if node.op_type != "Constant")


def with_weights(model: Any) -> Any:
    """Return the model as quantize_static gives it scales per channel: its weights are no nodes, and a DequantizeLinear
    has an axis."""
    lift_constants(model)
    return version_converter.convert_version(model, OPSET)


def feeds_of(name: str) -> dict[str, Any]:
    if name in networks.NETWORKS:
        return {"x": networks.images(1, 1)}
    return {"x": np.random.default_rng(1).uniform(-1, 1, TRAINED[name]).astype(np.float32)}


def model_of(name: str, form: str, types: str, per_channel: bool) -> Any:
    """Return the quantized model, or None if quantize_static refuses it or the package that ships it is not
    installed."""
    if name in networks.NETWORKS:
        return networks.quantized(networks.NETWORKS[name](), form, types, per_channel)
    model = load(name)
    if model is None:
        return None
    if form == "QOperator":
        lift_constants(model)
    try:
        return networks.quantized(model, form, types, per_channel, batches=[feeds_of(name)])
    except Exception:  # third-party code may raise anything
        return None


def explanations(name: str, form: str) -> Iterator[tuple[str, Explanation | None]]:
    """Yield the reports of sessions with the names of their variants."""
    for types in networks.TYPES:
        for per_channel in (False, True):
            says = f"{types} {'channel' if per_channel else 'tensor'}"
            model = model_of(name, form, types, per_channel)
            try:
                yield says, None if model is None else described(model, feeds_of(name)["x"].shape)
            except ValueError:
                yield says, None


def fix(model: Any, shape: tuple[int, ...]) -> None:
    """Give the only input this shape."""
    for dim, extent in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = extent


def described(model: Any, shape: tuple[int, ...]) -> Explanation:
    """Return the report of a session for inputs of this shape, whose kernels are chosen and not compiled."""
    fix(model, shape)
    device = open_device("cpu")
    place = Place(device.name, device.target)
    chosen: dict[Problem, Choice] = {}

    def answer(problem: Problem) -> Any:
        if problem not in chosen:
            with open_layers(None, place) as layers:
                chosen[problem] = choose(problem, place, layers, is_in_sequence())
        return Unloaded(chosen[problem])

    with answered_by(answer):
        return Session(model, "cpu").explain()  # which looks kernels up again


class Unloaded:
    """An instance whose kernel is chosen and not compiled."""

    def __init__(self, choice: Choice) -> None:
        self.why, self.plan = choice.why, choice.plan

    def pack(self, *_: Any, **__: Any) -> None:
        """Do nothing: no kernel runs."""


def cell(explanation: Explanation | None) -> str:
    if explanation is None:
        return "is not taken"
    here = sum(row.runs_on == "qconv" for row in explanation.rows)
    fallen: Mapping[str, int] = Counter(explanation.fallen_back)
    ops = ", ".join(f"{op.removeprefix('com.microsoft.')} {count}" for op, count in sorted(fallen.items()))
    return f"{here} of {len(explanation.rows)} layers | {ops or 'nothing'}"


def rows(name: str, form: str) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for says, explanation in explanations(name, form):
        alike.setdefault(cell(explanation), []).append(says)
    for shown, variants in alike.items():
        which = ALL if len(variants) == 6 else ", ".join(variants)
        yield f"| {name} | {form} | {which} | {shown if '|' in shown else f'{shown} |'} |"


if __name__ == "__main__":
    for line in HEAD:
        print(line)
    for name, form in PARTS:
        for line in rows(name, form):
            print(line, flush=True)
