"""Lists of layers and their floors."""

from __future__ import annotations

from pathlib import Path

import pytest

from qconv import Conv2d, Quantization

PEERS = """name,N,H,W,C,K,R,S,stride,pad,groups,floor_us,cutlass_sm80_us,best_peer_us
l2,32,28,28,128,128,3,3,1,1,1,3.74,15.91,9.76
dw,128,56,56,128,128,3,3,2,1,128,24.07,,60.68
"""
MODELS = """model,layer,N,C,H,W,K,R,S,stride_h,stride_w,pad_h,pad_w,dil_h,dil_w,groups,OH,OW,kind,macs,bias
m1,conv,2,16,9,8,24,3,5,2,1,1,2,1,2,1,5,4,dense,0,1
m1,same,2,16,9,8,24,3,5,2,1,1,2,1,2,1,5,4,dense,0,1
m2,other,2,16,9,8,16,1,1,1,1,0,0,1,1,16,9,8,dw,0,0
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "layers.csv"
    path.write_text(text)
    return path


def test_the_columns_of_the_peers(tmp_path: Path) -> None:
    from workload import read

    layer, depthwise = read(written(tmp_path, PEERS))
    assert layer.problem == Conv2d(32, 28, 28, 128, 128, 3, 3, pad=1)
    assert depthwise.problem == Conv2d(128, 56, 56, 128, 128, 3, 3, stride=2, pad=1, groups=128)
    assert (layer.name, layer.model) == ("l2", None)
    # Computed columns are not read from the csv, and an empty cell is not a time.
    assert layer.published == {"cutlass_sm80_us": 15.91}
    assert depthwise.published == {}


def test_the_columns_of_the_models(tmp_path: Path) -> None:
    from workload import distinct, read

    path = written(tmp_path, MODELS)
    layers = read(path, batch=1)
    assert [layer.name for layer in layers] == ["m1/conv", "m1/same", "m2/other"]
    want = Conv2d(1, 9, 8, 16, 24, 3, 5, stride=(2, 1), dilation=(1, 2), pad=(1, 2, 1, 2))
    assert layers[0].problem == want
    assert [layer.biased for layer in layers] == [True, True, False]
    assert [len(same) for same in distinct(layers).values()] == [2, 1]
    assert [layer.name for layer in read(path, models="m2")] == ["m2/other"]
    assert [layer.name for layer in read(path, only="sa.e")] == ["m1/same"]
    assert [layer.name for layer in read(path, kinds="^dw$")] == ["m2/other"]


def test_equal_layers_are_deployed_alike(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[conformance]'")
    from models import UNSIGNED_SHARE, deployed
    from workload import Layer, distinct, read

    layers = [deployed(layer) for layer in read(written(tmp_path, MODELS))]
    assert len(distinct(layers)) == 2
    assert layers[0].problem.quantization.bias == "int32"
    assert layers[2].problem.quantization.bias == "none"
    many = [deployed(Layer(str(k), None, Conv2d(1, 8, 8, 8, k, 1, 1), True)) for k in range(1, 401)]
    shifted = [layer.problem.quantization for layer in many if layer.problem.quantization.x_zero_point]
    assert abs(len(shifted) / len(many) - UNSIGNED_SHARE) < 0.1
    assert {(q.x_type, q.w_type, q.out_type, q.w_zero_point) for q in shifted} >= {
        ("uint8", "int8", "uint8", False),
        ("int8", "uint8", "int8", True),
    }
    assert all(layer.problem.quantization.per_channel for layer in many)


def test_the_floor_is_the_larger_of_two() -> None:
    from roofline import ROOFLINES, floor_us

    busy = Conv2d(32, 56, 56, 256, 256, 3, 3, pad=1)
    wide = Conv2d(32, 56, 56, 64, 64, 1, 1)
    assert floor_us(busy, "NVIDIA H200") == pytest.approx(busy.operations / 1979e12 * 1e6)
    assert floor_us(wide, "NVIDIA H200") == pytest.approx(wide.io_bytes / 4.27e12 * 1e6)
    # Values of peers_h200.csv.
    assert floor_us(busy, "NVIDIA H200") == pytest.approx(59.82, abs=0.01)
    assert floor_us(wide, "NVIDIA H200") == pytest.approx(3.01, abs=0.01)
    assert floor_us(busy, "a device of nobody's") is None
    assert set(ROOFLINES) == {"NVIDIA H200"}


def test_per_tensor_is_the_default(tmp_path: Path) -> None:
    from workload import read

    assert {layer.problem.quantization for layer in read(written(tmp_path, PEERS))} == {Quantization()}
