"""The ONNX backend: models of QLinearConv, ConvInteger, QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.

    import qconv.onnx

    outputs = qconv.onnx.Backend.prepare(model, "CUDA").run([x])

The arithmetic is ONNX Runtime's: the output zero point of QLinearConv is added after the rounding, where the
ReferenceEvaluator of the onnx package adds it before; the two differ on ties. QuantizeLinear divides in the type of the
scale, as the specification has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.backend.base as base

from qconv.device import gpu_specs, open_device
from qconv.onnx.graph import Graph, read_node
from qconv.onnx.integer_inputs import with_integer_inputs
from qconv.onnx.session import Session
from qconv.onnx.tensor import Held, Unsupported

__all__ = ["Backend", "Model", "Session", "Unsupported", "with_integer_inputs"]


class Model(base.BackendRep):
    """A model, ready to run: what it holds that does not change is on the device after the first run."""

    def __init__(self, graph: Graph, spec: str) -> None:
        self._graph = graph
        self._device = open_device(spec)
        self._constants = {name: Held(self._device, host=array) for name, array in graph.constants.items()}

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **kwargs: Any) -> tuple[Any, ...]:
        """NumPy arrays in, in the order of the graph or by name, and NumPy arrays out."""
        if kwargs:
            raise ValueError(f"run has no {next(iter(kwargs))!r}: it takes the inputs alone")
        values = dict(self._constants)
        for name, array in self._graph.checked_inputs(inputs).items():
            values[name] = Held(self._device, host=array)
        for node in self._graph.nodes:
            results = node.run([values[name] if name else None for name in node.inputs], self._device)
            values |= zip(node.outputs, results, strict=False)
        return tuple(np.array(values[name].on_host) for name in self._graph.outputs)


class Backend(base.Backend):
    """What `onnx.backend` asks of a runtime."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Model:
        """Everything that is known without the inputs is checked here; `Unsupported` says what is not, by name."""
        if kwargs:
            raise ValueError(f"prepare has no {next(iter(kwargs))!r}: it takes the model and the device")
        if not cls.supports_device(device):
            there = ", ".join(spec.upper() for spec in ("cpu", *gpu_specs()))
            raise ValueError(f"device={device!r} is not here; there is {there}")
        return Model(Graph(model), _spec(device))

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        try:
            Graph(model)
        except ValueError:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU is the CPU device, which is always there; CUDA and CUDA:n are GPUs."""
        return _spec(device) in ("cpu", *gpu_specs())

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node; `opset_version` as in onnx's own checker."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)  # checks the node
        given = iter([np.asarray(array) for array in inputs])
        arrays = [next(given, None) if name else None for name in node.input]
        reader, place = read_node(node, arrays), open_device(_spec(device))
        held = [None if array is None else Held(place, host=array) for array in arrays]
        return tuple(np.array(result.on_host) for result in reader.run(held, place))


def _spec(device: str) -> str:
    spec = str(device).lower()  # what is no name is refused by the name that it would be
    return spec if spec == "cpu" or ":" in spec else f"{spec}:0"


# The module functions by which onnx's own tools call a backend.
prepare = Backend.prepare
run_node = Backend.run_node
run_model = Backend.run_model
is_compatible = Backend.is_compatible
supports_device = Backend.supports_device
