"""Convolutions that read the frames of volumes where they lie: random problems of every family that does, tolerance 0;
the sanitizers; and the classes of images whose frames are not all in the volume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exactness import check, check_all
from random_frames import FAMILIES, frame_plans

from qconv import Conv2d, Quantization, generator
from qconv.arithmetic.mode import Mode
from qconv.device import Device
from qconv.device.cpu_runtime import Sanitizer
from qconv.errors import Infeasible
from qconv.generator import Config
from qconv.generator.families.halo.config import Halo
from qconv.generator.families.wgmma import Wgmma
from qconv.generator.persistent import Borders
from qconv.ops.frames import beside_each_other
from qconv.problem.frames import Frames
from qconv.targets.target import TARGETS
from tests.templates.test_mma_sanitizers import check as check_sanitized

TARGET = TARGETS["cpu.sm_90a"]
CHUNK, FAST, LONG, ON_GPU = 6, 6, 300, 100
QUANTIZED = Quantization("uint8", "int8", "uint8", True, True, False, True, "int32", "relu")
PLANS = {
    "wgmma": generator.plan(
        Conv2d(6, 5, 7, 144, 136, 3, 3, pad=1, frames=(3, 3, 3, 1, 1, 1), quantization=QUANTIZED),
        Wgmma(2, 0, 16, 2, 1),
        TARGET,
    ),
    "halo": generator.plan(
        Conv2d(6, 9, 9, 96, 64, 3, 3, pad=1, frames=(3, 3, 3, 1, 1, 1), quantization=QUANTIZED), Halo(4, 2, 64), TARGET
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_config(family: str) -> None:
    check_all(frame_plans(family, 1, FAST, TARGET), 0)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
@pytest.mark.parametrize("family", FAMILIES)
def test_many_random_configs(family: str, first: int) -> None:
    check_all(frame_plans(family, 100 + first, CHUNK, TARGET), first)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, ON_GPU, CHUNK))
@pytest.mark.parametrize("family", FAMILIES)
def test_many_random_configs_on_the_gpu(gpu: Device, family: str, first: int) -> None:
    if gpu.target.warpgroup is None:
        pytest.skip(f"{gpu.target.name} has no instruction of warpgroups")
    for index, plan in enumerate(frame_plans(family, 500 + first, CHUNK, gpu.target), first):
        check(plan, gpu, index)


@pytest.mark.turns
@pytest.mark.parametrize(("name", "sanitizer", "seed"), [("wgmma", "address", 3), ("halo", "thread", 0)])
def test_nothing_is_found(name: str, sanitizer: Sanitizer, seed: int) -> None:
    check_sanitized(PLANS[name], sanitizer, seed)


@pytest.mark.gpu
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_found_by_a_sanitizer_on_the_gpu(gpu: Device, name: str) -> None:
    check(generator.plan(PLANS[name].problem, PLANS[name].config, gpu.target), gpu, 0)


def test_an_image_is_of_frames_side_by_side() -> None:
    problem = Conv2d(3, 1, 1, 6, 1, 1, 1, frames=Frames(3, 4, 3, 2, 1, 2), quantization=QUANTIZED)
    x = np.arange(8, dtype=np.uint8).reshape(4, 1, 1, 2)
    made = beside_each_other(problem, x, 99).reshape(3, 6)
    assert made.tolist() == [[99, 99, 99, 99, 0, 1], [0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 99, 99]]


def test_the_frame_behind_the_last_is_padding() -> None:
    assert not Frames(2, 4, 3, 1, 1, 0).pads
    assert Frames(3, 4, 3, 1, 1, 0).pads


def test_padding_may_be_the_byte_zero() -> None:
    quantization = Quantization("uint8", x_zero_point=True, mode=Mode(padding="raw_zero"))
    problem = Conv2d(1, 1, 1, 2, 1, 1, 1, frames=(1, 1, 2, 1, 1, 1), quantization=quantization)
    assert beside_each_other(problem, np.full((1, 1, 1, 1), 7, np.uint8), 99).reshape(-1).tolist() == [0, 7]


def test_bytes_are_those_of_frames_that_an_image_has() -> None:
    assert Conv2d(4, 5, 6, 16, 16, 1, 1, frames=(2, 8, 1, 4, 1, 0)).x_bytes == 2 * 2 * 5 * 6 * 16


def test_other_families_refuse_them() -> None:
    problem = Conv2d(6, 9, 9, 96, 64, 3, 3, pad=1, frames=(3, 3, 3, 1, 1, 1))
    assert set(generator.families(problem)) == set(FAMILIES)
    of_images = generator.default(replace(problem, frames=None), TARGETS["sm_80"])
    with pytest.raises(Infeasible, match="it has no frames of volumes"):
        generator.plan(problem, of_images.config, TARGETS["sm_80"])


# Depth, images of a volume, taps, stride, dilation, frames in front: the classes are by which taps are in the volume.
@pytest.mark.parametrize(
    "frames",
    [
        (8, 8, 3, 1, 1, 1),
        (8, 4, 3, 2, 1, 1),
        (8, 8, 3, 1, 1, 2),
        (5, 7, 2, 1, 2, 2),
        (2, 2, 3, 1, 1, 1),
        (9, 3, 3, 3, 1, 0),
    ],
)
def test_images_of_a_class_have_the_same_frames(frames: tuple[int, ...]) -> None:
    depth, count, *rest = frames
    made = Frames(count, depth, *rest)
    problem = Conv2d(count, 4, 4, made.taps * 16, 16, 3, 3, pad=1, frames=made, quantization=QUANTIZED)
    of_images = Borders.of(problem).images
    assert of_images is not None
    inside = [tuple(made.frame(image, tap) is not None for tap in range(made.taps)) for image in range(count)]
    inner = inside[of_images.before : count - of_images.behind]
    assert len(set(inner)) <= 1
    assert of_images.classes == of_images.before + of_images.behind + bool(inner)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"frames": (2, 3)}, "must be 6 integers"),
        ({"frames": (0, 3, 3, 1, 1, 1)}, "frames.images=0 must be between 1"),
        ({"frames": (4, 4, 3, 1, 1, 1)}, "n=6 is no multiple of frames.images=4"),
        ({"frames": (3, 3, 5, 1, 1, 1)}, "c=96 is no multiple of frames.taps=5"),
        ({"frames": (3, 3, 3, 1, 1, 1), "groups": 3}, "groups=3 with frames"),
        ({"frames": (3, 3, 3, 1, 1, 1), "layout": "nchw"}, "layout='nchw'"),
    ],
)
def test_what_no_problem_has_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Conv2d(6, 8, 8, 96, 96, 3, 3, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "channels", "frames", "says"),
    [
        (Wgmma(2, 0, 16, 2, 1), 24, (3, 3, 3, 1, 1, 1), "c=8: TMA copies multiples of 16 bytes"),
        (Halo(4, 2, 64), 24, (3, 3, 3, 1, 1, 1), "c=8 of a frame"),
        (Wgmma(2, 0, 16, 2, 1), 96, (3, 3, 3, 1, 40, 40), "im2col reaches at most 31"),
    ],
)
def test_what_tma_cannot_copy_is_refused(config: Config, channels: int, frames: tuple[int, ...], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(Conv2d(6, 8, 8, channels, 136, 3, 3, pad=1, frames=frames), config, TARGET)
