"""A small quantized network of `torch.ops.qconv`, compiled in one graph, exported, and compared with the oracle.

python examples/pytorch.py [cpu|cuda:0]
"""

import sys

import torch

import qconv.torch
from qconv.ops import registry

ops = torch.ops.qconv
device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
quantization = qconv.Quantization(per_channel=True, x_zero_point=True, bias="int32", activation="relu")
problem = qconv.Conv2d(2, 14, 14, 32, 48, 3, 3, pad=(1, 1, 1, 1), quantization=quantization)
data = registry.draw(problem, seed=1)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch.from_numpy(data.arrays[1]).permute(0, 3, 1, 2))  # KCRS, channels_last
        self.register_buffer("scales", torch.from_numpy(data.parameters["w_scale"]))
        self.register_buffer("bias", torch.from_numpy(data.parameters["bias"]))
        self.numbers = {name: data.parameters[name].item() for name in ("x_scale", "x_zero_point", "y_scale")}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = ops.conv2d(x, self.w, self.scales, self.bias, padding=1, activation="relu", **self.numbers)
        return ops.max_pool2d(y, 2)


layer = Layer().to(device)
x = torch.from_numpy(data.arrays[0]).permute(0, 3, 1, 2).to(device)
compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
exported = torch.export.export(layer, (x,)).module()

(expected,) = registry.compute(problem, data)
expected = qconv.max_pool(expected, 2, stride=2)
results = [call(x).permute(0, 2, 3, 1).cpu().numpy() for call in (layer, compiled, exported)]
print("bit-exact:", all((y == expected).all() for y in results))
