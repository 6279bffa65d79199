"""The scale is right wherever the extremes are: in any slice, any lane, and after the last whole vector."""

from __future__ import annotations

import numpy as np
import pytest
from float8_boundaries import float8_boundaries

from qconv import generator
from qconv.arithmetic.mode import MODE_VALUES
from qconv.conversion import Choose, Dequantize, Dynamic, Quantize
from qconv.conversion.problem import WIDE
from qconv.device import open_device
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.generator.families.conversion.choosing import Choosing
from qconv.instances.load.pair import load
from qconv.ops.registry import Sample
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
CASES = {
    "a team a row": (Choose(1, 3, 200), Choosing(threads=128, team=32, vector=4, unroll=1, slices=1)),
    "slices of the array": (Choose(1, 1, 4099), Choosing(threads=128, team=128, vector=4, unroll=1, slices=4)),
    "slices of channels": (Choose(1, 3, 2048), Choosing(threads=128, team=128, vector=4, unroll=1, slices=4)),
}


@pytest.mark.parametrize("name", CASES)
def test_they_are_seen_wherever_they_are(name: str) -> None:
    problem, config = CASES[name]
    instance = load(generator.plan(problem, config, CPU.target), CPU)
    (tensor,) = problem.inputs
    last = problem.inner - 1
    for at in sorted({0, 1, 63, 64, 127, last // 2, last - 3, last - 2, last - 1, last}):
        x = np.zeros(tensor.shape, tensor.dtype)
        # Each channel has another range, its largest element next to its smallest.
        for channel in range(problem.channels):
            x[0, channel, at] = 100.0 + channel
            x[0, channel, last - at] = -50.0 - 9 * channel
        assert mismatch(instance, Sample((x,))) is None, f"extremes at {at} and {last - at}"


@pytest.mark.parametrize("kind", [Choose, Dynamic])
def test_a_channel_may_have_more_slices_than_a_block_has_threads(kind: type[Choose | Dynamic]) -> None:
    """The last slice has the extremes."""
    problem, config = kind(1, 1, 2**16), Choosing(threads=128, team=128, vector=4, unroll=1, slices=256)
    x = np.zeros((1, 1, 2**16), np.float32)
    x[..., -2:] = -3, 5
    assert mismatch(load(generator.plan(problem, config, CPU.target), CPU), Sample((x,))) is None


def test_every_half_is_read() -> None:
    """Normal, denormal, infinite and NaN; with scales as small as a denormal, every bit matters."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    problem = Quantize(1, 1, 2**16, x_type="float16")
    for scale in (2.0**-26, 1.0):
        (x, scales), shapes = (halves, np.float32(scale)), [tensor.shape for tensor in problem.inputs]
        drawn = Sample((x.reshape(shapes[0]), np.full(shapes[1], scales)))
        instance = load(generator.default(problem, CPU.target), CPU)
        assert mismatch(instance, drawn) is None, scale


@pytest.mark.parametrize(("first", "scale"), [(-8192, 2.0**-26), (57344, 1.0), (-73728, 1.0)])
def test_halves_are_written_to_both_ends_of_their_range(first: int, scale: float) -> None:
    """Denormals, and the largest before infinity, with the ties between them."""
    problem = Dequantize(1, 1, 2**14, x_type="int32", out_type="float16")
    x = np.arange(first, first + 2**14, dtype=np.int32).reshape(1, 1, -1)
    instance = load(generator.default(problem, CPU.target), CPU)
    assert mismatch(instance, Sample((x, np.array([scale], np.float32)))) is None


@pytest.mark.parametrize("quotient", ["divide", "reciprocal"])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_8_bit_floats_at_every_boundary(dtype: str, quotient: str) -> None:
    """Every number, every tie and their neighbours in fp32, both zeros, infinities and NaN: exact by powers of two."""
    values = float8_boundaries(dtype)
    problem = Quantize(1, 1, len(values), out_type=dtype, quotient=quotient)
    instance = load(generator.default(problem, CPU.target), CPU)
    for scale in (1.0, 2.0**-20, 2.0**30):
        with np.errstate(over="ignore"):
            x = (values * np.float32(scale)).reshape(1, 1, -1)
        assert mismatch(instance, Sample((x, np.array([scale], np.float32)))) is None, scale
    numbers = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[dtype].numpy)
    back = load(generator.default(Dequantize(1, 1, 256, x_type=dtype), CPU.target), CPU)
    y = back(numbers.reshape(1, 1, -1), np.ones(1, np.float32)).ravel()
    np.testing.assert_array_equal(y, numbers.astype(np.float32))
    assert (np.signbit(y) == np.signbit(numbers))[~np.isnan(y)].all()


@pytest.mark.parametrize("dtype", FLOAT8)
def test_fp64_becomes_8_bits_by_one_rounding(dtype: str) -> None:
    values = float8_boundaries(dtype).astype(np.float64)
    values = np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf), [1e300, -1e300]])
    problem = Quantize(1, 1, len(values), x_type="float64", out_type=dtype, precision="float64")
    instance = load(generator.default(problem, CPU.target), CPU)
    assert mismatch(instance, Sample((values.reshape(1, 1, -1), np.ones(1, np.float32)))) is None


@pytest.mark.parametrize(("out_type", "first"), [("float16", 2049), ("bfloat16", 257)])
def test_what_lies_just_beside_a_tie_is_rounded_once(out_type: str, first: int) -> None:
    """An intermediate fp32 would become the tie itself. Odd numbers from `first` on have one bit too many."""
    kind = {"x_type": "int32", "out_type": out_type, "precision": "float64", "scale_type": "float64"}
    problem = Dequantize(1, 1, 128, **kind)  # type: ignore[arg-type]
    odd = np.arange(first, first + 128, 2, dtype=np.int32)
    x = np.concatenate([odd, -odd])
    shapes = [tensor.shape for tensor in problem.inputs]
    instance = load(generator.default(problem, CPU.target), CPU)
    for scale in (1 + 2.0**-40, 1 - 2.0**-40):
        assert mismatch(instance, Sample((x.reshape(shapes[0]), np.full(shapes[1], scale)))) is None, scale


@pytest.mark.turns
@pytest.mark.parametrize("precision", WIDE)
@pytest.mark.parametrize("rounding", MODE_VALUES["rounding"])
@pytest.mark.parametrize("out_type", ["int8", "int32"])
def test_ties_of_both_signs_are_rounded_as_the_mode_says(out_type: str, rounding: str, precision: str) -> None:
    """Also covers their neighbours. With a zero point added afterwards, an int32 is rounded to 64 bits."""
    ties = np.arange(-127, 127, dtype=precision) + np.array(0.5, precision)
    far = np.array([2**22 - 1.5, 1.5 - 2**22], precision)
    x = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), np.trunc(ties), far])
    kind = {"x_type": precision, "scale_type": precision, "precision": precision, "rounding": rounding}
    for zero_point in (False, True):
        problem = Quantize(1, 1, x.size, out_type=out_type, zero_point=zero_point, **kind)  # type: ignore[arg-type]
        one, three = np.array([1], precision), np.array([3], np.int32)
        drawn = Sample((x.reshape(1, 1, -1), one, three)[: len(problem.inputs)])
        assert mismatch(load(generator.default(problem, CPU.target), CPU), drawn) is None, f"{zero_point=}"
