"""A kernel without Python: exported as a library, built by CMake, called by `library.cpp`, compared with the oracle.

python examples/library.py [cpu|cuda:0]
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import qconv
from qconv.device import open_device
from qconv.op import Sample
from qconv.ops import registry

device = open_device(sys.argv[1] if len(sys.argv) > 1 else None)
problem = qconv.Conv2d(1, 14, 14, 64, 32, 3, 3, pad=1, quantization=qconv.Quantization(bias="int32"))
drawn = registry.draw(problem, seed=1)
scales = {"x_scale": 0.02, "w_scale": 0.005, "y_scale": 0.1}
data = Sample(drawn.arrays, scales | {"bias": drawn.parameters["bias"]})

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    target = device.target.name
    made = qconv.export(
        problem, folder / "kernels", form="library", targets=[target], origins=["user", "shipped", "default"]
    )
    print(f"{len(made.files)} files in {made.folder}")
    subprocess.run(["cmake", "-S", "kernels", "-B", "build"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "build", "-j2"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    program = Path(__file__).with_name("library.cpp")
    compiler = ["c++", "-std=c++17", "-I", "kernels/include", str(program), "-o", "program"]
    library = ["-Lbuild", "-lqconv_kernels", f"-Wl,-rpath,{folder / 'build'}"]
    subprocess.run([*compiler, *library], cwd=folder, check=True)

    for file, array in {"x": data.arrays[0], "w": data.arrays[1], "bias": data.parameters["bias"]}.items():
        np.asarray(array).tofile(folder / file)
    subprocess.run(["./program", problem.key, "."], cwd=folder, check=True)
    y = np.fromfile(folder / "y", np.int8).reshape(problem.y_shape)

(expected,) = registry.compute(problem, data)
print("bit-exact:", (y == expected).all())
