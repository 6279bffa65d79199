"""The scratch of a kernel: zeros that belong to one Bound, and that the kernel leaves as zeros."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from altered_plan import altered, with_scratch
from exactness import expected

from qconv import Conv2d, Quantization, generator
from qconv.device import open_device
from qconv.device.cpu_runtime import Sanitizer
from qconv.generator import Plan
from qconv.generator.plan import Field, Launch
from qconv.generator.tensor_map import TENSOR_MAP_BYTES, TensorMap, matrix
from qconv.instances.load.executable import MOST_ENCODED, Executable
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import target
from qconv.tensor_ops import Add
from qconv.tuner.measure.sanitized import run

PROBLEM = Conv2d(1, 6, 5, 16, 12, 3, 3, pad=1, quantization=Quantization(per_channel=True, x_zero_point=True))
ELEMENTS = 5
DRAWN = registry.draw(PROBLEM, 3)


CPU = open_device("cpu")
PLAIN = generator.default(PROBLEM, CPU.target)
PLAN = with_scratch(PLAIN, ELEMENTS)
AT = 8 * [field.name for field in PLAN.fields].index("counters")


class Recorder:
    """A kernel that records its arguments and, at a launch, its scratch, which it then spoils."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, int, bool]] = []  # kernel, address of the scratch, overlap
        self.found: list[tuple[int, list[int]]] = []

    def bind(self, launch: Launch, arguments: bytes, overlap: bool = False) -> Callable[[Any], None]:
        (address,) = struct.unpack_from("Q", arguments, AT)
        self.bound.append((launch.kernel, address, overlap))

        def run(stream: Any = None) -> None:
            if address:
                counters = (ctypes.c_int * ELEMENTS).from_address(address)
                self.found.append((address, list(counters)))
                counters[:] = [7] * ELEMENTS

        return run


def recorded(plan: Plan = PLAN) -> tuple[Executable, Recorder]:
    kernel = Recorder()
    loaded = load(PLAIN, CPU)
    assert isinstance(loaded, Executable)
    return replace(loaded, plan=plan, kernel=kernel), kernel


def test_each_bound_has_zeros_of_its_own() -> None:
    instance, kernel = recorded()
    packed = instance.pack(DRAWN.arrays[1], **DRAWN.parameters)
    bounds = [packed.bind(DRAWN.arrays[0]) for _ in range(2)]
    for bound in bounds * 2:
        bound()
    addresses = [address for _, address, _ in kernel.bound[1:]]
    assert len(set(addresses)) == 2
    # The scratch is cleared at binding, and afterwards only by the kernel.
    zeros, spoiled = [0] * ELEMENTS, [7] * ELEMENTS
    assert kernel.found == [*((at, zeros) for at in addresses), *((at, spoiled) for at in addresses)]


def test_what_is_folded_has_none() -> None:
    """One fold serves every Bound: its results, written once per set of weights, belong to none of them."""
    instance, kernel = recorded()
    instance.pack(DRAWN.arrays[1], **DRAWN.parameters)
    assert kernel.bound == [("conv2d_fold", 0, False)]


def test_a_call_that_is_not_bound_begins_with_zeros_each_time() -> None:
    instance, kernel = recorded()
    packed = instance.pack(DRAWN.arrays[1], **DRAWN.parameters)
    for _ in range(3):
        packed(DRAWN.arrays[0])
        instance(*DRAWN.arrays, **DRAWN.parameters)
    assert [content for _, content in kernel.found] == [[0] * ELEMENTS] * 6


def test_it_lives_as_long_as_the_bound() -> None:
    instance, kernel = recorded()
    bound = instance.bind(*DRAWN.arrays, **DRAWN.parameters)
    bound()
    junk = [np.full(ELEMENTS, 9, np.int32) for _ in range(1000)]
    bound()
    assert kernel.found[1][1] == [7] * ELEMENTS
    del junk


USES = """    if (tile::block_x() == 0 && tile::block_y() == 0 && tile::thread() == 0) {
        for (int i = 0; i < ELEMENTS; ++i) args.counters[i] += i;
        for (int i = 0; i < ELEMENTS; ++i) args.counters[i] -= CLEARED;
    }
"""


def using(cleared: str, elements: int = ELEMENTS) -> str:
    """Return the source with a kernel that adds to its scratch and subtracts again."""
    text, begin = generator.render(PLAN).text, "    Shared& shared = tile::shared_memory<Shared>();\n"
    assert text.count(begin) == 1, "the text to replace has changed: put the scratch elsewhere"
    return text.replace(begin, begin + USES.replace("ELEMENTS", str(elements)).replace("CLEARED", cleared))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_under_a_sanitizer_it_starts_as_zeros(sanitizer: Sanitizer) -> None:
    report, outs = run(PLAN, DRAWN, sanitizer, source=using("i"))
    assert (report.kind, report.text) == ("clean", "")
    assert outs[0].tobytes() == expected(PROBLEM, DRAWN).tobytes()


@pytest.mark.parametrize(
    ("source", "kind", "says"),
    [
        (using("0"), "dirty scratch", "conv2d_simt leaves counters other than zero"),
        (using("i", ELEMENTS + 1), "heap-buffer-overflow", "of size 4"),
    ],
)
def test_what_is_left_and_what_is_beyond_is_found(source: str, kind: str, says: str) -> None:
    report, outs = run(PLAN, DRAWN, "address", source=source)
    assert (report.clean, report.kind) == (False, kind)
    assert says in report.text
    assert not outs


OVERLAPPING = altered(PLAN, overlaps=True)


def test_overlapping_is_asked_of_the_main_kernel_alone() -> None:
    instance, kernel = recorded(OVERLAPPING)
    packed = instance.pack(DRAWN.arrays[1], **DRAWN.parameters)
    packed.bind(DRAWN.arrays[0], overlap=True)
    packed.bind(DRAWN.arrays[0])
    packed(DRAWN.arrays[0], overlap=True)
    assert [(name, overlap) for name, _, overlap in kernel.bound] == [
        ("conv2d_fold", False),
        ("conv2d_simt", True),
        ("conv2d_simt", False),
        ("conv2d_simt", True),
    ]
    del kernel.bound[:]
    instance.bind(*DRAWN.arrays, overlap=True, **DRAWN.parameters)
    instance(*DRAWN.arrays, overlap=True, **DRAWN.parameters)
    assert [(name, overlap) for name, _, overlap in kernel.bound] == [
        ("conv2d_fold", False),
        ("conv2d_simt", True),
    ] * 2


def test_what_is_written_for_the_kernel_is_fenced_from_launches_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overlapping launch reads folded sums before the previous kernel has ended, so it must not follow the fold
    directly."""
    filled: list[int] = []
    monkeypatch.setattr(type(CPU), "fill", lambda self, array, byte: filled.append(array.nbytes))
    instance, _ = recorded(OVERLAPPING)
    packed = instance.pack(DRAWN.arrays[1], **DRAWN.parameters)
    packed.refold()
    instance(*DRAWN.arrays, overlap=True, **DRAWN.parameters)
    assert filled == [4, 4, 4]
    packed(DRAWN.arrays[0], overlap=True)
    instance(*DRAWN.arrays, **DRAWN.parameters)
    bound = instance.bind(*DRAWN.arrays, overlap=True, **DRAWN.parameters)
    bound()
    assert filled == [4, 4, 4]
    bound.refold()
    assert filled == [4, 4, 4, 4]


def test_what_has_no_weights_needs_no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a kernel reads nothing before it waits, and a one-liner packs in every call."""
    filled: list[int] = []
    monkeypatch.setattr(type(CPU), "fill", lambda self, array, byte: filled.append(array.nbytes))
    problem = Add(1, 1, 64)
    plan = altered(generator.default(problem, CPU.target), overlaps=True)
    load(plan, CPU).pack(**registry.draw(problem, 1).parameters)
    assert not filled


def test_a_kernel_that_does_not_overlap_is_not_asked_to() -> None:
    instance, _ = recorded()
    says = r"overlap=True was given, but simt on cpu does not wait .*: leave it out\. NVIDIA targets from sm_90a"
    x, w = DRAWN.arrays
    packed = instance.pack(w, **DRAWN.parameters)
    for use in (packed, packed.bind):
        with pytest.raises(ValueError, match=says):
            use(x, overlap=True)
    for ask in (instance, instance.bind):
        with pytest.raises(ValueError, match=says):
            ask(x, w, overlap=True, **DRAWN.parameters)


class Encoder:
    """A device that records which map it encodes for which address."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(CPU, name)

    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        self.asked.append((tensor_map.array, address))
        return struct.pack("Q", address).ljust(TENSOR_MAP_BYTES, tensor_map.array[:1].encode())


class Keeper:
    """A kernel that keeps its bound arguments."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, bytes]] = []

    def bind(self, launch: Launch, arguments: bytes, overlap: bool = False) -> Callable[[Any], None]:
        self.bound.append((launch.kernel, arguments))
        return lambda stream=None: None


def with_maps(plan: Plan) -> Plan:
    """Return the plan with tensor maps of x, w, y and of a workspace, each after its array's field."""
    (folded,) = [field.path for field in plan.fields if field.role == "workspace"]
    rows = matrix("x", "int8", 30, 16, 8, 16)
    maps = [
        Field(f"{array}_map", "tile::TensorMap", "tensor_map", array, tensor_map=replace(rows, array=array))
        for array in ("x", "w", "y", folded)
    ]
    on_hopper = replace(plan.target, generation=target("cpu.sm_90a").generation)
    made = altered(plan, fields=(*plan.fields, *maps))
    object.__setattr__(made, "target", on_hopper)
    return made


def test_tensor_maps_are_encoded_where_arrays_lie() -> None:
    plan, encoder, kernel = with_maps(PLAIN), Encoder(), Keeper()
    loaded = load(PLAIN, CPU)
    assert isinstance(loaded, Executable)
    packed = replace(loaded, plan=plan, kernel=kernel, device=encoder).pack(DRAWN.arrays[1], **DRAWN.parameters)
    (folded,) = packed.folded
    at = dict(zip((field.name for field in plan.fields), plan.offsets, strict=True))

    def mapped(arguments: bytes, name: str) -> int:
        return int(struct.unpack_from("Q", arguments, at[f"{name}_map"])[0])

    _, folds = kernel.bound[0]
    assert [mapped(folds, name) for name in ("x", "y")] == [0, 0]
    assert mapped(folds, "w") == struct.unpack_from("Q", folds, at["w"])[0] != 0
    assert mapped(folds, folded) == struct.unpack_from("Q", folds, at[folded])[0] != 0
    assert [array for array, _ in encoder.asked] == ["w", folded]

    bounds = [packed.bind(DRAWN.arrays[0]) for _ in range(3)]
    for (_, arguments), bound in zip(kernel.bound[1:], bounds, strict=True):
        assert mapped(arguments, "x") == CPU.adopt("x", DRAWN.arrays[0])[1]
        assert mapped(arguments, "y") == CPU.adopt("y", bound.y)[1]
        assert [mapped(arguments, name) for name in ("w", folded)] == [mapped(folds, name) for name in ("w", folded)]
    # x is used again and not encoded again; a bound launch encodes nothing.
    assert [array for array, _ in encoder.asked] == ["w", folded, "x", "y", "y", "y"]
    bounds[0]()
    assert len(encoder.asked) == 6


def test_few_encoded_maps_are_kept() -> None:
    plan, encoder = with_maps(PLAIN), Encoder()
    loaded = load(PLAIN, CPU)
    assert isinstance(loaded, Executable)
    packed = replace(loaded, plan=plan, kernel=Keeper(), device=encoder).pack(DRAWN.arrays[1], **DRAWN.parameters)
    for _ in range(2):
        for address in range(0, 16 * MOST_ENCODED, 16):
            packed._encode(matrix("x", "int8", 30, 16, 8, 16), address)
    assert len(packed._encoded) <= MOST_ENCODED
