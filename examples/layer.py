"""One quantized layer from Python: looked up, bound once, launched many times, compared with the oracle.

python examples/layer.py [cpu|cuda:0]
"""

import sys

import qconv
from qconv.device import open_device
from qconv.ops import registry

device = open_device(sys.argv[1] if len(sys.argv) > 1 else None)
quantization = qconv.Quantization(per_channel=True, x_zero_point=True, bias="int32", activation="relu")
problem = qconv.Conv2d(1, 14, 14, 64, 96, 3, 3, stride=(2, 2), pad=(1, 1, 1, 1), quantization=quantization)

instance = qconv.lookup(problem, device.spec)
print(f"{problem}\n{instance.reason}\n{instance.plan.config}")

data = registry.draw(problem, seed=1)
x, w = (device.upload(array) for array in data.arrays)
bound = instance.bind(x, w, **data.parameters)
for _ in range(10):
    y = bound()
device.synchronize()

(expected,) = registry.compute(problem, data)
print("bit-exact:", (device.download(y) == expected).all())
