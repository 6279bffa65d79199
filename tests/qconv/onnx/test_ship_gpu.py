"""On a GPU, a built model runs where neither qconv nor CuPy can compile anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import quantized_networks as networks

from qconv.device import Device
from qconv.onnx.ship import build

pytestmark = pytest.mark.gpu

RUN = """
import json
import sys
import cupy
import numpy as np
from cupy.cuda import compiler, nvrtc

def refuse(*_, **__):
    raise AssertionError("CuPy compiles")

compiler._compile_module_with_cache = compiler.compile_using_nvrtc = refuse
from qconv.onnx import Session
session = Session(sys.argv[1], sys.argv[2])
x = np.load(sys.argv[3])
outputs = [session.run(None, {"x": np.roll(x, turn, -1)})[0].tolist() for turn in range(3)]
outputs.append(session.run(None, {"x": cupy.asarray(x).transpose(0, 1, 3, 2)})[0].tolist())
print(json.dumps(outputs))
"""


@pytest.mark.parametrize("network", ["squeeze_excite", "mobilenet_v3"])
def test_nothing_is_compiled(network: str, gpu: Device, tmp_path: Path) -> None:
    model = networks.quantized(networks.NETWORKS[network](), "QOperator", "u8s8", per_channel=True)
    build(model, tmp_path / "built", gpu.target.name, device=gpu.name)
    x = networks.images(1, 9)
    np.save(tmp_path / "x.npy", x)
    empty = {name: str(tmp_path / name) for name in ("QCONV_CACHE", "CUPY_CACHE_DIR", "HOME")}
    command = [sys.executable, "-c", RUN, str(tmp_path / "built"), gpu.spec, str(tmp_path / "x.npy")]
    environment = {**os.environ, **empty, "QCONV_NO_COMPILE": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    fed = [*(np.roll(x, turn, -1) for turn in range(3)), np.ascontiguousarray(x.transpose(0, 1, 3, 2))]
    assert json.loads(ran.stdout) == [networks.by_ort(model, {"x": each})[0].tolist() for each in fed]
    assert not [*(tmp_path / "CUPY_CACHE_DIR").rglob("*.cubin")]
