"""Manifests of built models: a session runs such a folder with the right bits, or refuses it by name."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import quantized_networks as networks

from qconv.device import open_device
from qconv.instances.load.building import Place
from qconv.instances.load.manifest import MANIFEST, digest_of
from qconv.onnx import Session
from qconv.onnx.built import build
from tests.hostile.judge import Surface, Wrong
from tests.hostile.mutations import encoded, of_bytes, of_json

CONFIG = networks.INT8_ALLOWED
FED = {"x": networks.images(1, 9)}


@cache
def _model() -> Any:
    """Return a model with a region of two convolutions and a sum, and a head."""
    b, c = networks.Builder(7), networks.CHANNELS
    x = b.node("Relu", b.conv("x", 3, c, stride=2))
    x = b.node("Add", b.conv(x, c, c, size=1), x)
    return networks.quantized(b.head(x, c), "QDQ", "s8s8", False)


@cache
def _folder() -> tuple[Path, str]:
    """Return the folder and its manifest's text."""
    folder = Path(tempfile.mkdtemp(prefix="qconv-hostile-")) / "built"
    device = open_device("cpu")
    build(_model(), folder, Place(device.name, device.target), config=CONFIG)
    return folder, (folder / MANIFEST).read_text()


@cache
def _wanted() -> Any:
    return networks.by_ort(_model(), FED, CONFIG)[0]


def draw(rng: Random) -> bytes:
    """Draw a manifest; half of them have a valid digest, as if written by a faulty program that knows it."""
    _, text = _folder()
    if rng.random() < 0.1:
        return of_bytes(rng, encoded(text))
    changed = of_json(rng, text)
    return encoded(_sealed(changed) if rng.random() < 0.5 else changed)


def _sealed(text: str) -> str:
    """Return the manifest with a valid digest; settings stay, because with others other bits would be right."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("config") != CONFIG:
        return text
    document.pop("sha256", None)
    return json.dumps({**document, "sha256": digest_of(document)})


def take(given: bytes) -> None:
    folder, _ = _folder()
    (folder / MANIFEST).write_bytes(given)
    if not np.array_equal(Session(folder, "cpu").run(None, FED)[0], _wanted()):
        raise Wrong("another output than ONNX Runtime's")


SURFACES = (Surface("manifests", draw, take, cases=5_000),)
