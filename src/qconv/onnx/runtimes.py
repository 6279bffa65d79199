"""The bits that other systems would give for a quantized model. Each is a mode (docs/contract.md), which takes a layer
or does not; of those that it takes, some outputs are computed in that mode and compared with ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from qconv.arithmetic.epilogue import computed
from qconv.arithmetic.mode import PRESETS
from qconv.arithmetic.quantization import Parameters, Quantization
from qconv.network.graph.served import Unserved
from qconv.network.layers.convolution import IntegerConvolution, read_layer
from qconv.onnx import options
from qconv.onnx.asked_shapes import own_proto
from qconv.onnx.model import read, session_with
from qconv.ops.window import gathered, sums, windows
from qconv.problem.convolution import Conv2d

# The mode with which all others are compared.
USUAL = "ort"


@dataclass
class Runtime:
    """A system, and the model's layers of integers. `refused` are those that it does not take, with the reasons. Of the
    others, some outputs were computed in its mode: `different` ones are not ONNX Runtime's, by `most` at most."""

    mode: str
    says: str
    layers: int
    refused: dict[str, str] = field(default_factory=dict)
    outputs: int = 0
    different: int = 0
    most: int = 0

    @property
    def taken(self) -> int:
        return self.layers - len(self.refused)

    def add(self, ours: Any, theirs: Any) -> None:
        differences = np.abs(np.subtract(theirs, ours, dtype=np.int32))
        self.outputs += differences.size
        self.different += int(np.count_nonzero(differences))
        self.most = max(self.most, int(differences.max(initial=0)))

    def as_dict(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"taken": self.taken}


@dataclass(frozen=True)
class _Sums:
    """Sums of a layer, by [output pixel, output channel], and everything that makes outputs of them."""

    problem: Conv2d
    parameters: Parameters
    acc: Any

    def by(self, mode: str) -> Any:
        """Return the outputs as a system computes them. Raise ValueError where it has no such layer."""
        own = self.problem.quantization
        spec = {each.name: getattr(own, each.name) for each in fields(own) if each.name != "mode"}
        parameters = self.parameters
        if own.bias == "int32" and "int32" not in PRESETS[mode].biases:
            spec["bias"] = "float32"
            scale = np.float32(parameters.x_scale) * np.asarray(parameters.w_scale, np.float32)
            parameters = replace(parameters, bias=(parameters.bias * scale).astype(np.float32))
        problem = replace(self.problem, quantization=Quantization.of(mode, **spec))
        checked = parameters.checked(problem.quantization, problem.k)
        return computed(problem.quantization, checked, self.acc)


class Runtimes:
    """The systems, compared on the samples that are added. Sampled outputs are the same in each run."""

    def __init__(self, quantized: str | Path | onnx.ModelProto) -> None:
        config, meaning = options.settings(None, options.Bits.INTEGERS), options.meaning(None, None, None)
        model = read(own_proto(quantized, config, meaning), config)
        self._layers: list[IntegerConvolution] = []
        for layer in model.network.layers:
            try:
                made = read_layer(layer, model.network)
            except Unserved:
                continue
            if isinstance(made, IntegerConvolution) and made.out_type in ("int8", "uint8") and made.volume is None:
                self._layers.append(made)
        inner = {layer.x for layer in self._layers} - {value.name for value in model.proto.graph.input}
        self._names = sorted(inner)
        self._session = session_with(model.proto, self._names, config)
        self._at = len(model.proto.graph.output)
        self._rng = np.random.default_rng(0)
        self.found = tuple(Runtime(name, preset.says, len(self._layers)) for name, preset in PRESETS.items())

    def add(self, feeds: Mapping[str, Any]) -> None:
        made = self._session.run(None, dict(feeds))[self._at :]
        given = dict(feeds) | dict(zip(self._names, made, strict=True))
        for layer in self._layers:
            seen = _sums_of(layer, given[layer.x], self._rng)
            ours = seen.by(USUAL)
            for runtime in self.found:
                try:
                    runtime.add(ours, seen.by(runtime.mode))
                except ValueError as refused:
                    runtime.refused[layer.layer.name] = str(refused).partition(";")[0]


def _sums_of(layer: IntegerConvolution, x: Any, rng: np.random.Generator) -> _Sums:
    problem = layer.problem(x.shape)
    assert isinstance(problem, Conv2d)
    pixels = (np.moveaxis(x, 1, -1) if layer.axes else x).reshape(-1, problem.c)
    given = {name: value for name, value in layer.parameters.items() if name != "table"}
    parameters = Parameters(**given).checked(problem.quantization, problem.k)
    (seen,) = windows([problem], rng)
    filters = layer.filters.transpose(0, 2, 3, 1).reshape(problem.k, -1).astype(np.int32)
    w = filters - np.reshape(parameters.w_zero_point, (-1, 1))
    return _Sums(problem, parameters, sums(seen, gathered(seen, pixels[seen.reads], parameters.x_zero_point), w))
