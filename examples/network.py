"""A small quantized ONNX network: run by a session, explained, and compared with ONNX Runtime.

python examples/network.py [cpu|cuda:0]
"""

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import qconv.onnx

rng = np.random.default_rng(1)
constants = {
    "scale": np.float32(0.05),
    "zero": np.uint8(128),
    "w_scale": np.float32(0.01),
    "w_zero": np.int8(0),
    "w1": rng.integers(-63, 64, (16, 3, 3, 3)).astype(np.int8),
    "w2": rng.integers(-63, 64, (16, 16, 3, 3)).astype(np.int8),
}
quantized = ["scale", "zero"]
nodes = [
    helper.make_node("QLinearConv", ["x", *quantized, "w1", "w_scale", "w_zero", *quantized], ["a"], pads=[1, 1, 1, 1]),
    helper.make_node("QLinearConv", ["a", *quantized, "w2", "w_scale", "w_zero", *quantized], ["b"], pads=[1, 1, 1, 1]),
    helper.make_node("QLinearAdd", ["a", *quantized, "b", *quantized, *quantized], ["sum"], domain="com.microsoft"),
    helper.make_node("MaxPool", ["sum"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
]
model = helper.make_model(
    helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, ["n", 16, 8, 8])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    ),
    opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
    ir_version=9,
)
onnx.checker.check_model(model)

session = qconv.onnx.Session(model.SerializeToString(), device=sys.argv[1] if len(sys.argv) > 1 else None)
x = rng.integers(0, 256, (2, 3, 16, 16)).astype(np.uint8)
(y,) = session.run(None, {"x": x})
print(session.explain())

peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
(expected,) = peer.run(None, {"x": x})
print("bit-exact:", (y == expected).all())
