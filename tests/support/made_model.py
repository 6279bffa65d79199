"""A model out of nodes and arrays, and what it is to be fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass
class Made:
    """Nodes, arrays that are fed and arrays that are held. The inputs are declared with the shapes of what is fed, or
    without any extents (`dynamic`)."""

    nodes: Sequence[Any]
    feeds: Mapping[str, Any]
    held: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    opset: int = 17
    ir: int = 9
    dynamic: bool = False
    listed: Sequence[str] = ()  # constants that are listed as inputs as well

    @property
    def proto(self) -> Any:
        def shown(name: str, array: Any) -> Any:
            kind = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, kind, [None] * array.ndim if self.dynamic else array.shape)

        held = {name: np.asarray(array) for name, array in self.held.items()}
        inputs = [shown(name, np.asarray(array)) for name, array in self.feeds.items() if name not in held]
        inputs += [shown(name, held[name]) for name in self.listed]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        constants = [numpy_helper.from_array(array, name) for name, array in held.items()]
        graph = helper.make_graph(list(self.nodes), "unusual", inputs, outputs, constants)
        domains = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=self.ir)
