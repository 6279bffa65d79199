"""The ONNX backend: models of QLinearConv, ConvInteger, QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.

    import qconv.onnx

    outputs = qconv.onnx.Backend.prepare(model, "CUDA").run([x])

The arithmetic is ONNX Runtime's: QLinearConv adds the output zero point after the rounding, while the
ReferenceEvaluator of the onnx package adds it before; the two differ on ties. QuantizeLinear divides in the type of the
scale, as specified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.backend.base as base

from qconv.device import gpu_specs, open_device
from qconv.network.ship.network_export import Shipped
from qconv.onnx.comparison import Comparison, compare
from qconv.onnx.graph import Graph, read_node
from qconv.onnx.integer_inputs import with_integer_inputs
from qconv.onnx.quantizer import Quantized, Quantizing, quantize
from qconv.onnx.samples import Pixels, Samples
from qconv.onnx.sensitivity import Sensitive, sensitivity
from qconv.onnx.session import Session
from qconv.onnx.ship import export
from qconv.onnx.shipped_session import ShippedSession
from qconv.onnx.tensor import Held, Unsupported

__all__ = [
    "Backend",
    "Comparison",
    "Model",
    "Pixels",
    "Quantized",
    "Quantizing",
    "Samples",
    "Sensitive",
    "Session",
    "Shipped",
    "ShippedSession",
    "Unsupported",
    "compare",
    "export",
    "quantize",
    "sensitivity",
    "with_integer_inputs",
]


class Model(base.BackendRep):
    """A model that is ready to run. Its constants are on the device after the first run."""

    def __init__(self, graph: Graph, spec: str) -> None:
        self._graph = graph
        self._device = open_device(spec)
        self._constants = {name: Held(self._device, host=array) for name, array in graph.constants.items()}

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **kwargs: Any) -> tuple[Any, ...]:
        """Run with NumPy arrays in the graph's order or by name. Return NumPy arrays."""
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
    """The interface that `onnx.backend` requires of a runtime."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Model:
        """Check everything that is known without inputs, and return the model. Raise `Unsupported`, which names what is
        not."""
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
        """True for CPU, the CPU device, which always exists, and for CUDA and CUDA:n where there is such a GPU."""
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
        """Run one node and return its outputs; `opset_version` is that of onnx's checker."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)  # checks the node
        given = iter([np.asarray(array) for array in inputs])
        arrays = [next(given, None) if name else None for name in node.input]
        reader, place = read_node(node, arrays), open_device(_spec(device))
        held = [None if array is None else Held(place, host=array) for array in arrays]
        return tuple(np.array(result.on_host) for result in reader.run(held, place))


def _spec(device: str) -> str:
    spec = str(device).lower()  # an invalid name stays one, and is rejected as such
    return spec if spec == "cpu" or ":" in spec else f"{spec}:0"


# The module functions by which onnx's tools call a backend.
prepare = Backend.prepare
run_node = Backend.run_node
run_model = Backend.run_model
is_compatible = Backend.is_compatible
supports_device = Backend.supports_device
