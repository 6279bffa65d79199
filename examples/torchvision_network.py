"""A network of torchvision: exported, quantized, and run in int8 with ONNX Runtime's bits.

python examples/torchvision_network.py [cpu|cuda:0]

It needs torchvision and onnxruntime: pip install 'qconv-tune[conformance,onnx]'.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import torch
import torchvision
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

import qconv.onnx

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
size = 32 if device == "cpu" else 224  # the CPU device is exact and slow


class Images(CalibrationDataReader):  # use your own images here
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.left = [{"x": rng.standard_normal((1, 3, size, size), np.float32)} for _ in range(4)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


with TemporaryDirectory() as folder:
    real, quantized = (str(Path(folder) / f"{name}.onnx") for name in ("real", "quantized"))
    network = torchvision.models.mobilenet_v2(num_classes=10)
    x = torch.randn(2, 3, size, size)
    network(torch.randn(8, 3, size, size))  # so that its batch norms have realistic statistics
    torch.onnx.export(network.eval(), (x,), real, input_names=["x"], dynamic_axes={"x": {0: "N"}}, dynamo=False)
    quantize_static(
        real,
        quantized,
        Images(),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        reduce_range=True,
        per_channel=True,
    )
    session = qconv.onnx.Session(quantized, device)
    (y,) = session.run(None, {"x": x.numpy()})
    (wanted,) = onnxruntime.InferenceSession(quantized).run(None, {"x": x.numpy()})

print(session.explain())
print("bit-exact:", np.array_equal(y, wanted))
