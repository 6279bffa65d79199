"""The zoo's networks: their number, their kinds, and the outputs of our own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
import zoo
from zoo_networks import NETWORKS, Detector, ImageDecoder, Pyramid, SuperResolution, VolumeUNet, brought


def shapes(network: str, size: int) -> list[tuple[int, ...]]:
    torch.manual_seed(0)
    one = NETWORKS[network]
    with torch.no_grad():
        made = one.make(size).eval()(torch.randn(1, *one.shape(size)))
    return [tuple(y.shape) for y in (made if isinstance(made, tuple) else (made,))]


def test_there_are_many_of_others_and_six_of_ours() -> None:
    assert len(NETWORKS) == 36
    assert {one.kind for one in NETWORKS.values()} >= {
        "plain", "squeeze-excite", "channel shuffle", "dense concatenation", "hybrid with attention", "LayerNorm",
        "segmentation", "detection", "super-resolution", "generative", "video", "volumes",
    }  # fmt: skip


def test_any_network_of_timm_is_brought_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {"wide": SimpleNamespace(input_size=(3, 288, 240))}
    made = SimpleNamespace(get_pretrained_cfg=found.get, create_model=lambda name, pretrained: (name, pretrained))
    monkeypatch.setitem(sys.modules, "timm", made)
    one = brought("timm.wide")
    assert (one.kind, one.shape(one.size), one.make(one.size)) == ("timm", (3, 240, 240), ("wide", False))
    assert brought("unet") is NETWORKS["unet"]
    monkeypatch.setattr(zoo, "Zoo", None)  # nothing begins
    with pytest.raises(ValueError, match="timm has no network 'wider'"):
        zoo.main(["--timm", "wide,wider", "--out", str(tmp_path)])


def test_a_detector_gives_a_box_for_every_cell() -> None:
    assert isinstance(NETWORKS["detector"].make(64), Detector)
    assert shapes("detector", 64) == [(1, 84, 4), (1, 84), (1, 84)]  # of 8x8, 4x4 and 2x2 cells


def test_a_pyramid_gives_every_level() -> None:
    assert isinstance(NETWORKS["pyramid"].make(64), Pyramid)
    assert shapes("pyramid", 64) == [(1, 9, extent, extent) for extent in (8, 4, 2, 1)]


def test_super_resolution_doubles_and_a_decoder_makes_the_image() -> None:
    assert isinstance(NETWORKS["super_resolution"].make(16), SuperResolution)
    assert shapes("super_resolution", 16) == [(1, 3, 32, 32)]
    assert NETWORKS["image_decoder"].shape(64) == (ImageDecoder.LATENT, 8, 8)
    assert shapes("image_decoder", 64) == [(1, 3, 64, 64)]


def test_volumes_have_frames() -> None:
    assert NETWORKS["r3d_18"].shape(112) == (3, 16, 112, 112)
    assert isinstance(NETWORKS["volume_unet"].make(8), VolumeUNet)
    assert shapes("volume_unet", 8) == [(1, 2, 8, 8, 8)]
