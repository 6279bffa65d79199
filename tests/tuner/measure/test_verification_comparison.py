"""The verifier is verified: `mismatch` reports any wrong or missing output, and where it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from qconv import Conv2d, Quantization, generator
from qconv.arithmetic.step import Array
from qconv.conversion.problem import Dequantize, Dynamic, Quantize
from qconv.device import Device, cpu_runtime, open_device
from qconv.device.cpu_runtime import SanitizerReport
from qconv.generator.families.mma.config import Mma
from qconv.generator.families.simt import Simt
from qconv.generator.source import Source
from qconv.instances.load.pair import load
from qconv.op import Problem
from qconv.ops import registry
from qconv.ops.registry import Sample
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.evaluate import evaluate
from qconv.tuner.measure.protocol import WALL_CLOCK
from qconv.tuner.measure.verification import InputSets, bits, opposite

CPU = open_device("cpu")
PER_CHANNEL = Quantization(per_channel=True, bias="int32")
CONV = Conv2d(3, 4, 5, 6, 7, 3, 3, pad=1, quantization=PER_CHANNEL)
POINTWISE = Conv2d(3, 4, 5, 7, 5, 1, 1)
ADDED = replace(POINTWISE, quantization=Quantization(residual="int8", residual_zero_point=True))
PROBLEMS: dict[str, Problem] = {
    "conv2d": CONV,
    "nchw": replace(CONV, layout="nchw"),
    "residual": ADDED,
    **{out: replace(CONV, quantization=Quantization(out_type=out)) for out in ("int32", "float32", "bfloat16")},
    "two": chain_of([CONV, POINTWISE]),
    "three, residual": chain_of([replace(CONV, c=4, k=6), CONV, ADDED]),
    "quantize": Quantize(3, 5, 7),
    "dequantize": Dequantize(3, 5, 7),
    "dynamic": Dynamic(3, 5, 7),
}


@dataclass(frozen=True)
class Kernel:
    """The attributes of a kernel's plan that `mismatch` reads."""

    scratch: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()


@dataclass
class Scripted:
    """A stand-in for an instance: writes the oracle's outputs, then applies `spoil` with the launch number. It does not
    write the outputs `unwritten` in the launches `leaving`."""

    right: Sequence[Array]
    spoil: Callable[[int, list[Array]], None] = lambda launch, outs: None
    unwritten: Sequence[tuple[int, Any]] = ()
    leaving: Sequence[int] = (0, 1)
    scratch: bool = False
    device: Device = CPU
    between: tuple[Array, ...] = ()
    launches: int = 0
    outs: list[Array] = field(default_factory=list)

    @property
    def plan(self) -> Kernel:
        return Kernel(kernels=(Kernel(), Kernel(("sums",) if self.scratch else ())))

    def bind(self, *inputs: Any, out: Any, **parameters: Any) -> Scripted:
        self.outs = list(out) if isinstance(out, tuple) else [out]
        return self

    def __call__(self) -> None:
        kept = [(which, where, self.outs[which][where].copy()) for which, where in self.unwritten]
        for out, right in zip(self.outs, self.right, strict=True):
            out[...] = right
        self.spoil(self.launches, self.outs)
        for which, where, value in kept if self.launches in self.leaving else []:
            self.outs[which][where] = value
        self.launches += 1


def input_sets_of(problem: Problem) -> tuple[InputSets, tuple[Array, ...]]:
    drawn = registry.draw(problem, 5)
    right = registry.compute(problem, drawn)
    return InputSets(problem, CPU, drawn, expected=right), right


def mismatch(input_sets: InputSets, instance: Scripted) -> str | None:
    return input_sets.mismatch(instance)  # type: ignore[arg-type]


def flip(array: Array, where: tuple[int, ...], bit: int) -> None:
    """Flip one bit of one element."""
    flat = array.reshape(-1).view(f"u{array.dtype.itemsize}")
    flat[np.ravel_multi_index(where, array.shape)] ^= flat.dtype.type(1 << bit)


def spoiled(which: int, where: tuple[int, ...], bit: int, launches: Sequence[int] = (0, 1)) -> Callable[..., None]:
    def spoil(launch: int, outs: list[Array]) -> None:
        if launch in launches:
            flip(outs[which], where, bit)

    return spoil


def elements(problem: Problem, right: Sequence[Array]) -> Iterator[tuple[int, str, tuple[int, ...], Array]]:
    """Yield each element of every output: all images, all corners, the last channels."""
    for which, (tensor, array) in enumerate(zip(problem.outputs, right, strict=True)):
        for where in np.ndindex(array.shape):
            yield which, tensor.name, where, array


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_wrong_bit_is_seen_wherever_it_is(name: str) -> None:
    problem = PROBLEMS[name]
    input_sets, right = input_sets_of(problem)
    assert mismatch(input_sets, Scripted(right)) is None
    for which, output, where, array in elements(problem, right):
        bit = sum(where) % (8 * array.dtype.itemsize)
        wrong = array.copy()
        flip(wrong, where, bit)
        said = mismatch(input_sets, Scripted(right, spoiled(which, where, bit)))
        about = f"1 of {array.size} outputs {output} differ from the oracle; the first at {where}: "
        assert said is not None
        assert said.startswith(about)
        if str(wrong[where]) != str(array[where]):  # of two NaN the bits are shown
            assert said == f"{about}{wrong[where]!s} instead of {array[where]!s}"


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_element_that_is_not_written_is_seen(name: str) -> None:
    problem = PROBLEMS[name]
    input_sets, right = input_sets_of(problem)
    for which, output, where, array in elements(problem, right):
        said = mismatch(input_sets, Scripted(right, unwritten=[(which, where)]))
        assert said is not None
        assert said.startswith(f"1 of {array.size} outputs {output} differ from the oracle; the first at {where}: ")


def test_whatever_is_right_nothing_written_is_all_wrong() -> None:
    """No byte is right by accident, as with a constant poison; outputs of an earlier kernel are erased."""
    problem = replace(CONV, n=1, quantization=Quantization(out_type="uint8"))
    for value in range(256):
        right = (np.full(problem.outputs[0].shape, value, "uint8"),)
        input_sets = InputSets(problem, CPU, registry.draw(problem, 1), expected=right)
        assert mismatch(input_sets, Scripted(right)) is None
        said = mismatch(input_sets, Scripted(right, unwritten=[(0, (...,))]))
        assert said is not None
        assert said.startswith("140 of 140 outputs y differ")


def test_every_byte_of_the_poison_is_wrong() -> None:
    """A kernel may leave one byte of an element unwritten."""
    for problem in PROBLEMS.values():
        for right in input_sets_of(problem)[1]:
            poison = opposite(right)
            assert (poison.shape, poison.dtype) == (right.shape, right.dtype)
            assert np.all(bits(poison).view(np.uint8) ^ bits(right).view(np.uint8) == 0xFF)


def test_all_outputs_that_differ_are_named() -> None:
    input_sets, right = input_sets_of(PROBLEMS["dynamic"])
    assert len(right) == 3

    def spoil(launch: int, outs: list[Array]) -> None:
        flip(outs[0], (2, 1, 0), 3)
        flip(outs[2], (4,), 0)

    said = mismatch(input_sets, Scripted(right, spoil))
    assert said is not None
    first, last = said.split("; 1 of 5 outputs ")
    assert first.startswith("1 of 105 outputs y differ from the oracle; the first at (2, 1, 0): ")
    assert last.startswith("zero_point differ from the oracle; the first at (4,): ")


def test_zeros_have_signs_and_nan_has_bits() -> None:
    problem = replace(CONV, quantization=Quantization(out_type="float32"))
    shape = problem.outputs[0].shape
    for value, bit, says in (
        (np.float32(0.0), 31, "the first at (2, 3, 4, 6): -0.0 instead of 0.0"),
        (np.float32("nan"), 0, "the first at (2, 3, 4, 6): nan (0x7fc00001) instead of nan (0x7fc00000)"),
    ):
        right = (np.full(shape, value),)
        input_sets = InputSets(problem, CPU, registry.draw(problem, 1), expected=right)
        assert mismatch(input_sets, Scripted(right)) is None
        said = mismatch(input_sets, Scripted(right, spoiled(0, (2, 3, 4, 6), bit)))
        assert said is not None
        assert said.endswith(says)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_kernel_with_scratch_is_launched_twice_and_both_count(wrong: int) -> None:
    """It adds to the previous launch's result: either launch may be right by luck."""
    input_sets, right = input_sets_of(CONV)
    good = Scripted(right, scratch=True)
    assert mismatch(input_sets, good) is None
    assert good.launches == 2
    for bad in (
        Scripted(right, spoiled(0, (2, 0, 3, 6), 7, [wrong]), scratch=True),
        Scripted(right, unwritten=[(0, (2, 0, 3, 6))], leaving=[wrong], scratch=True),
    ):
        said = mismatch(input_sets, bad)
        assert said is not None
        assert said.startswith(
            f"launch {wrong + 1} of 2: 1 of 420 outputs y differ from the oracle; the first at (2, 0, 3"
        )
    once = Scripted(right)
    assert mismatch(input_sets, once) is None
    assert once.launches == 1


def test_what_lies_between_two_kernels_is_poisoned_before_each_launch() -> None:
    """Otherwise memory from another candidate would contain the right intermediate tensor."""
    input_sets, right = input_sets_of(PROBLEMS["two"])
    between = (np.zeros(5, "int8"), np.zeros(3, "uint8"))
    seen: list[set[int]] = []
    chain = Scripted(
        right,
        lambda launch, outs: seen.append({int(byte) & 0xFF for array in between for byte in array}),
        scratch=True,
        between=between,
    )
    assert mismatch(input_sets, chain) is None
    assert seen == [{0xA5}, {0x5A}]


SPLIT = Mma(
    instruction=0,
    tile_m=32,
    tile_n=32,
    tile_k=64,
    warp_m=32,
    warp_n=16,
    pipeline_stages=2,
    prefetch_fragments=0,
    split=2,
    split_last_wave=0,
    persist=0,
    stream_k=0,
    tile_swizzle_width=1,
    staged=0,
)
PARTS = Conv2d(1, 5, 5, 128, 48, 1, 1)


def test_a_pair_tells_its_scratch_and_what_lies_between() -> None:
    device, chain = open_device("cpu.sm_80"), chain_of([replace(PARTS, c=8, k=128), PARTS])
    configs = {chain.first: generator.default(chain.first, device.target).config, chain.rest: SPLIT}
    plan = generator.unfused_plan(chain, device.target, lambda one: configs[one])  # type: ignore[index]
    assert [bool(kernel.scratch) for kernel in plan.kernels] == [False, True]
    drawn = registry.draw(chain, 1)
    bound = load(plan, device).bind(*drawn.arrays, **drawn.parameters)
    (middle,) = bound.between
    bound()
    (first,) = registry.compute(chain.first, Sample(drawn.arrays[:2], chain.of_layer("first", drawn.parameters)))
    assert np.array_equal(middle, first)


SIMT = Simt(tile_m=64, tile_n=4, tile_k=32, thread_m=2, thread_n=4, pipeline_stages=2)
# Kernels with one broken line: the device, the problem, the line, its replacement, and the report.
BROKEN = {
    "the last image is not written": (
        "cpu",
        CONV,
        "if (pixel >= PIXELS) continue;",
        "if (pixel >= PIXELS / 3 * 2) continue;",
        "140 of 420 outputs y differ from the oracle; the first at (2, 0, 0, 0): ",
    ),
    "the last channel is not written": (
        "cpu",
        CONV,
        "if (k + v < k_end) args.y",
        "if (k + v < k_end - 1) args.y",
        "60 of 420 outputs y differ from the oracle; the first at (0, 0, 0, 6): ",
    ),
    "the scratch keeps its sums": (
        "cpu.sm_80",
        PARTS,
        "products[i] = tile::take(sums + i * THREADS);",
        "products[i] = sums[i * THREADS];",
        "launch 2 of 2: ",
    ),
}


def broken(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    honest = generator.render

    def render(plan: generator.Plan) -> Source:
        source = honest(plan)
        assert source.text.count(old) == 1, "the text to replace has changed: break the kernel anew"
        text = source.text.replace(old, new)
        return replace(source, text=text, digest=hashlib.sha256(text.encode()).hexdigest())

    for module in (generator, generator.source):
        monkeypatch.setattr(module, "render", render)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_not_timed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, problem, old, new, says = BROKEN[name]
    device = open_device(spec)
    plan = generator.plan(problem, SPLIT if problem is PARTS else SIMT, device.target)
    input_sets = InputSets(problem, device, registry.draw(problem, 1))
    assert evaluate(Candidate.of(plan), input_sets, WALL_CLOCK).outcome == "correct"
    broken(monkeypatch, old, new)
    row = evaluate(Candidate.of(plan), input_sets, WALL_CLOCK)
    assert (row.outcome, row.median_us) == ("correctness", None)
    assert row.reason is not None
    assert row.reason.startswith(says)


def test_the_sanitized_run_is_compared_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = generator.plan(CONV, SIMT, TARGETS["cpu"])
    drawn = registry.draw(CONV, 1)
    (right,) = registry.compute(CONV, drawn)
    held: list[bytes] = []

    def run_sanitized(*_: Any, buffers: list[bytes], outputs: list[int], **__: Any) -> SanitizerReport:
        (y,) = outputs
        held.append(buffers[y])
        got = right.copy()
        flip(got, (2, 3, 4, 6), 7)
        return SanitizerReport(True, "clean", "", (got.tobytes(),))

    monkeypatch.setattr(cpu_runtime, "run_sanitized", run_sanitized)
    said = sanitized.mismatch(plan, drawn, "address")
    assert said is not None
    assert said.startswith("under the sanitizer 1 of 420 outputs y differ from the oracle; the first at (2, 3, 4, 6): ")
    assert held == [opposite(right).tobytes()]
