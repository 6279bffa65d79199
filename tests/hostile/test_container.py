"""A whole network where nothing can be compiled or written, from a layer that was built elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import quantized_networks as networks
from read_only import python_without_disk

from qconv.device import open_device

SESSION = """
import json, sys
import numpy as np
from qconv.onnx import Session
session = Session(sys.argv[1], "cpu", strict=True)
outputs = session.run(None, dict(np.load(sys.argv[2])))
print(json.dumps([[output.tolist() for output in outputs], [row.runs_on for row in session.explain().rows]]))
"""


# The layers at the ends of a network are determined by the shapes of a call.
PROBLEMS = """
import sys
import numpy as np
from qconv.onnx import Session
session = Session(sys.argv[1], "cpu")
session.run(None, dict(np.load(sys.argv[2])))
print(*session.problems, sep="\\n")
"""


def build_elsewhere(model: Path, feeds: Path, layer: Path, home: Path) -> None:
    """Build the layer as on another machine: in new processes, with nothing of this one's caches and databases."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QCONV_")}
    environment = {**kept, "QCONV_CACHE": str(home / "cache")}

    def run(*words: str) -> list[str]:
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    keys = run("-c", PROBLEMS, str(model), str(feeds))
    device = open_device("cpu").name
    run("-m", "qconv", "build", "--target", "cpu", "--device", device, "--out", str(layer), *keys)


@pytest.fixture
def shipped() -> Iterator[Path]:
    """Create a model, its input and a layer, in a folder that anybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="qconv-shipped-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_session_in_a_container(shipped: Path, tmp_path: Path) -> None:
    """Every layer uses kernels of the cache layer, with the bits of ONNX Runtime outside."""
    model = networks.quantized(networks.resnet_like(), "QOperator", "u8u8", False)
    feeds = {"x": networks.images(1, 0)}
    onnx.save(model, shipped / "model.onnx")
    np.savez(shipped / "x.npz", **feeds)
    build_elsewhere(shipped / "model.onnx", shipped / "x.npz", shipped / "layer", tmp_path)
    wanted = networks.by_ort(model, feeds)

    words = ("-c", SESSION, str(shipped / "model.onnx"), str(shipped / "x.npz"))
    done = python_without_disk(f"QCONV_PATH={shipped / 'layer'}", "QCONV_NO_COMPILE=1")(*words)
    assert done.returncode == 0, done.stderr
    outputs, runs_on = json.loads(done.stdout.splitlines()[-1])
    assert set(runs_on) == {"qconv"}
    for got, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(np.array(got, expected.dtype), expected)
    bare = python_without_disk(f"QCONV_PATH={shipped}", "QCONV_NO_COMPILE=1")(*words)
    assert bare.returncode == 1
    assert "qconv-tune build" in bare.stderr.splitlines()[-1]
