"""The kernels of quantize, dequantize, requantize, choose and dynamic compared with the oracle, bit for bit."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from random_conversions import conversions, turned_conversions

from qconv import generator, parse
from qconv.conversion import Choose, Conversion, Dequantize, Dynamic, Quantize
from qconv.conversion.problem import CHOICES
from qconv.device import Device, open_device
from qconv.dtypes import FLOAT8
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.conversion.choosing import Choosing
from qconv.generator.families.conversion.elementwise import Elementwise, TurnedPlan
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")


def random_plan(problem: Conversion, device: Device, seed: object) -> Plan:
    plans, _ = generator.space(problem, device.target)
    return random.Random(f"config {seed} {problem}").choice(plans)


def check(problem: Conversion, device: Device, seed: int) -> None:
    for plan in (generator.default(problem, device.target), random_plan(problem, device, seed)):
        instance = load(plan, device)
        assert mismatch(instance, registry.draw(problem, seed)) is None, f"{problem} {plan.config}"


@pytest.mark.turns
@pytest.mark.parametrize("first", range(0, 40, 5))
def test_random_conversions(first: int) -> None:
    for index, problem in enumerate(conversions(1, 40)[first : first + 5], first):
        check(problem, CPU, index)


@pytest.mark.turns
@pytest.mark.parametrize("first", range(0, 24, 6))
def test_random_conversions_with_channels_last(first: int) -> None:
    for index, problem in enumerate(turned_conversions(1, 24)[first : first + 6], first):
        check(problem, CPU, index)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 10))
def test_many_random_conversions_with_channels_last(first: int) -> None:
    for index, problem in enumerate(turned_conversions(2, 200)[first : first + 10], first):
        check(problem, CPU, index)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, 200, 10))
def test_many_random_conversions_with_channels_last_on_a_gpu(first: int, gpu: Device) -> None:
    for index, problem in enumerate(turned_conversions(2, 200)[first : first + 10], first):
        check(problem, gpu, index)


@pytest.mark.parametrize(("vector", "unroll"), [(1, 1), (1, 8), (4, 1), (4, 4), (8, 1), (8, 2), (16, 1)])
def test_every_vector_of_pixels_has_the_bits_of_two_steps(vector: int, unroll: int) -> None:
    """Three images of 208 pixels: blocks end within an image, and a thread's last rows are past the end."""
    problem = Quantize(3, 3, 208, x_type="float16", out_type="uint8", zero_point=True, channels_last=True)
    drawn = registry.draw(problem, 7)
    plan = generator.plan(problem, Elementwise(threads=64, vector=vector, unroll=unroll), CPU.target)
    got = load(plan, CPU)(*drawn.arrays)
    plain = replace(problem, channels_last=False)
    wanted = load(generator.default(plain, CPU.target), CPU)(*drawn.arrays)
    np.testing.assert_array_equal(got, np.moveaxis(wanted, 1, -1))
    back = Dequantize(3, 3, 208, x_type="uint8", out_type="float16", zero_point=True, channels_last=True)
    real = load(generator.plan(back, plan.config, CPU.target), CPU)(got, *drawn.arrays[1:])
    wanted = load(generator.default(replace(back, channels_last=False), CPU.target), CPU)(wanted, *drawn.arrays[1:])
    np.testing.assert_array_equal(real, wanted)


def test_an_untuned_one_loads_wide_and_fills_the_device() -> None:
    """Most networks take images of 224x224 pixels and three channels."""
    target = TARGETS["sm_90a"]
    batch, alone = (generator.default(Quantize(n, 3, 224 * 224, channels_last=True), target) for n in (128, 1))
    for plan in (batch, alone):
        assert isinstance(plan, TurnedPlan)
        assert plan.alignment == {"x": 16, "scale": 4, "y": plan.word}
        # 12 or 24 bytes per thread are three words.
        assert plan.word == plan.config.vector
    assert batch.main.threads == 256
    assert alone.main.grid[0] > 132  # SMs


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 10))
def test_many_random_conversions(first: int) -> None:
    for index, problem in enumerate(conversions(2, 300)[first : first + 10], first):
        check(problem, CPU, index)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, 300, 10))
def test_many_random_conversions_on_a_gpu(first: int, gpu: Device) -> None:
    for index, problem in enumerate(conversions(2, 300)[first : first + 10], first):
        check(problem, gpu, index)


def test_the_random_conversions_have_everything() -> None:
    made = conversions(2, 300)
    seen = Counter((name, getattr(p, name)) for p in made for name in CHOICES if hasattr(p, name))
    for name, values in CHOICES.items():
        for value in values:
            assert seen[name, value] >= 2, (name, value)
    for dtype in FLOAT8:
        assert sum(getattr(p, "out_type", "") == dtype for p in made) >= 5
        assert sum(getattr(p, "x_type", "") == dtype for p in made) >= 5
    granularities = Counter(p.granularity for p in made)
    assert min(granularities[g] for g in ("tensor", "channel", "block")) >= 20
    assert all(parse(str(problem)) == problem for problem in made)


SANITIZED = {
    "vectors and a tail": (Quantize(1, 1, 1003, zero_point=True), Elementwise(threads=64, vector=4, unroll=2)),
    "scales within a vector": (Dequantize(3, 33, 5, zero_point=True), Elementwise(threads=64, vector=8, unroll=1)),
    "blocks": (Quantize(2, 37, 3, block=8), Elementwise(threads=64, vector=4, unroll=1)),
    "channels become last": (
        Quantize(3, 3, 100, zero_point=True, channels_last=True),
        Elementwise(threads=64, vector=4, unroll=2),
    ),
    "channels become planes": (
        Dequantize(4, 5, 72, zero_point=True, channels_last=True),
        Elementwise(threads=64, vector=8, unroll=1),
    ),
    "vectors of 8-bit floats": (
        Quantize(1, 1, 1003, x_type="bfloat16", out_type="float8_e4m3fn"),
        Elementwise(threads=64, vector=8, unroll=2),
    ),
    "8-bit floats of blocks": (
        Dequantize(2, 37, 3, x_type="float8_e5m2", out_type="float16", block=8),
        Elementwise(threads=64, vector=4, unroll=1),
    ),
    "a team a row": (Choose(1, 5, 200), Choosing(threads=128, team=32, vector=4, unroll=1, slices=1)),
    "slices of the array": (Choose(1, 1, 4099), Choosing(threads=128, team=128, vector=4, unroll=1, slices=4)),
    "rows of all threads": (Dynamic(1, 3, 700), Choosing(threads=128, team=128, vector=4, unroll=1, slices=1)),
    "rows of 8-bit floats": (
        Dynamic(1, 3, 700, out_type="float8_e4m3fn", x_type="float16"),
        Choosing(threads=128, team=128, vector=4, unroll=1, slices=1),
    ),
    "slices, then 8-bit floats": (
        Dynamic(1, 2, 4096, out_type="float8_e5m2"),
        Choosing(threads=128, team=128, vector=4, unroll=1, slices=4),
    ),
    "slices, then the array": (Dynamic(1, 2, 4096), Choosing(threads=128, team=128, vector=4, unroll=1, slices=4)),
}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), sanitizer) is None


PLANTED = [
    (
        "no barrier between two joins",
        "a team a row",
        "        tile::barrier();\n        if (lane",
        "        if (lane",
        "thread",
    ),
    ("a vector past the end", "vectors and a tail", "first + VECTOR <= ELEMENTS) x", "first < ELEMENTS) x", "address"),
    ("a slice too long", "slices of the array", "? COUNT : slice", "? COUNT + VECTOR : slice", "address"),
    ("pixels past the last image", "channels become last", "if (first < PIXELS) x[row]", "x[row]", "address"),
    ("words past the last image", "channels become planes", "if (first < PIXELS) x[row]", "x[row]", "address"),
    ("a channel too many", "channels become last", "load_prepared(args, channel)", "load_prepared(args, 9)", "address"),
    ("a scale too many", "blocks", "scale_index(at)", "scale_index(at) + 60", "address"),
]


@pytest.mark.turns
@pytest.mark.parametrize(("bug", "name", "old", "new", "sanitizer"), PLANTED, ids=[planted[0] for planted in PLANTED])
def test_a_planted_bug_is_found(bug: str, name: str, old: str, new: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    text = generator.render(plan).text
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(problem, 5), sanitizer, source=text.replace(old, new))
    assert not report.clean, bug


@pytest.mark.parametrize(
    ("problem", "config", "says"),
    [
        (Quantize(1, 1, 10_000), Elementwise(threads=64, vector=1, unroll=1), "only arrays of fewer than 512"),
        (Quantize(1, 1, 10_000), Elementwise(threads=64, vector=16, unroll=8), "bytes a thread has in flight"),
        (Quantize(1, 1, 10_000), Elementwise(threads=64, vector=3, unroll=8), "vector=3 is not one of"),
        (
            Quantize(2, 3, 30, channels_last=True),
            Elementwise(threads=64, vector=4, unroll=1),
            "does not divide the 30 pixels of an image",
        ),
        (
            Quantize(9, 9, 400, channels_last=True),
            Elementwise(threads=64, vector=8, unroll=1),
            "in flight, of 9 channels",
        ),
        (
            Quantize(1, 3, 64, channels_last=True),
            Elementwise(threads=512, vector=1, unroll=1),
            "pixels of a tile",
        ),
        (Choose(1, 3, 7), Choosing(threads=128, team=32, vector=4, unroll=1, slices=1), "does not divide inner=7"),
        (Choose(1, 1, 4096), Choosing(threads=128, team=32, vector=4, unroll=1, slices=4), "by a whole block"),
        (Choose(1, 1, 4096), Choosing(threads=128, team=256, vector=4, unroll=1, slices=1), "threads of a team"),
        (Choose(1, 1, 4096), Elementwise(threads=64, vector=4, unroll=1), "does not serve choose: use choosing"),
    ],
)
def test_what_a_config_cannot_serve(problem: Conversion, config: generator.Config, says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, config, TARGETS["sm_90a"])
