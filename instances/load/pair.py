"""A pair of executables that is called as one: the first writes the intermediate tensor that the second reads. For
three convolutions the second executable covers two and may be a pair itself; for a convolution with a pool it is the
pool, which has no weights. `load` makes an executable of a plan: renders its sources, finds or compiles their binaries,
and loads them on a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from qconv import generator
from qconv.device import Device
from qconv.device.cache import Binary
from qconv.device.compile import build
from qconv.generator import Plan, Source
from qconv.instances.load.arguments import check_aliasing
from qconv.instances.load.executable import (
    Bound,
    Executable,
    Packed,
    arrays_by_name,
    check_count,
    check_overlap,
    in_order,
)
from qconv.problem.pooled import InTurn


class PackedPair:
    """The packed weights of both, see `Packed`."""

    def __init__(self, pair: Pair, first: Packed, second: Packed | PackedPair) -> None:
        self.executable = pair
        self.first, self.second = first, second

    def __repr__(self) -> str:
        return f"<PackedPair: weights of {self.executable.problem} on {self.executable.device.name}>"

    @property
    def gains_by_overlap(self) -> bool:
        return self.executable.plan.overlaps

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
        with self.executable.device.on(stream):
            return self.prepare(inputs, out, overlap)(stream)

    def in_sequence(self, *inputs: Any) -> Any:
        """See `Packed.in_sequence`."""
        return self(*inputs, overlap=self.gains_by_overlap)

    def beside(self, *weights: Any) -> PackedPair:
        check_count(weights, self.executable.problem.packed, "beside")
        return PackedPair(self.executable, self.first.beside(weights[0]), self.second.beside(*weights[1:]))

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False) -> Bound:
        bound = self.prepare(inputs, out, overlap)
        self.executable.device.synchronize()
        return bound

    def prepare(self, inputs: Sequence[Any], out: Any, overlap: bool = False) -> Bound:
        problem = self.executable.problem
        check_overlap(overlap, self.executable.plan)
        if not inputs:
            raise ValueError(f"no arrays were given; this problem takes {', '.join(t.name for t in problem.inputs)}")
        x, *residual = inputs
        first = self.first.prepare([x], None, overlap and self.first.gains_by_overlap)
        second = self.second.prepare([first.y, *residual], out, overlap and self.second.gains_by_overlap)
        if out is not None:
            # The second executable checks what it reads itself. The first one's inputs have to be checked here too, so
            # that an output is accepted or not regardless of fusion; its weights are read again by later calls.
            weights = dict(zip(problem.packed, self.first.places.values(), strict=False))
            check_aliasing("out", second.arrays["y"], {"x": first.arrays["x"], **weights})
        launch = in_order([first.launch, second.launch])
        return Bound(second.y, launch, self, {**second.arrays, "x": first.arrays["x"]}, (first, second))

    def refold(self, stream: Any = None) -> None:
        self.first.refold(stream)
        self.second.refold(stream)

    def unpack(self, **layouts: str) -> dict[str, dict[str, Any]]:
        rest = self.executable.problem.rest
        second = self.second.unpack(**layouts if rest.packed else {})
        return {"first": self.first.unpack(**layouts), "second": second}


@dataclass(frozen=True, eq=False)
class Pair:
    """A chain as two executables that run one after the other."""

    plan: Plan
    first: Executable
    second: Runnable
    device: Device

    def __repr__(self) -> str:
        return f"<Pair: {self.plan.config} for {self.problem} on {self.device.name}>"

    @property
    def problem(self) -> InTurn:
        assert isinstance(self.plan.problem, InTurn)
        return self.plan.problem

    @property
    def binary(self) -> Binary:
        """The binary of the second executable."""
        return self.second.binary

    def pack(self, *weights: Any, stream: Any = None, **named: Any) -> PackedPair:
        weights = (*weights, *(named.pop(name) for name in self.problem.packed[len(weights) :] if name in named))
        check_count(weights, self.problem.packed, "pack")
        layout = {"w_layout": named.pop("w_layout")} if "w_layout" in named else {}
        values = {name: self.device.download(value) for name, value in named.items()}
        self.problem.checked(values)
        first = self.first.pack(weights[0], stream=stream, **self.problem.of_layer("first", values), **layout)
        of_rest = layout if self.problem.rest.packed else {}
        second = self.second.pack(*weights[1:], stream=stream, **self.problem.of_rest(values), **of_rest)
        return PackedPair(self, first, second)

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False, **parameters: Any) -> Bound:
        packed, rest = self._split(inputs, parameters, None)
        return packed.bind(*rest, out=out, overlap=overlap)

    def __call__(
        self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False, **parameters: Any
    ) -> Any:
        packed, rest = self._split(inputs, parameters, stream)
        return packed(*rest, out=out, stream=stream, overlap=overlap)

    def _split(self, inputs: Sequence[Any], named: dict[str, Any], stream: Any) -> tuple[PackedPair, list[Any]]:
        given = arrays_by_name(self.problem, inputs, named)
        weights = [given.pop(name) for name in self.problem.packed]
        return self.pack(*weights, stream=stream, **named), list(given.values())


# The launches of a problem: one kernel, or several in order.
Runnable = Executable | Pair


def load(plan: Plan, device: Device, toolchain: str | None = None, sources: Sequence[Source] | None = None) -> Runnable:
    """Load a plan. A binary of the named toolchain is preferred. `sources` are those of `plan.kernels`, if the caller
    has rendered them already."""
    sources = [generator.render(kernel) for kernel in plan.kernels] if sources is None else sources
    return _loaded(plan, device, toolchain, iter(sources))


def _loaded(plan: Plan, device: Device, toolchain: str | None, sources: Iterator[Source]) -> Runnable:
    if plan.parts:
        first, second = (_loaded(part, device, toolchain, sources) for part in plan.parts)
        assert isinstance(first, Executable)
        return Pair(plan, first, second, device)
    binary = build(next(sources), plan, toolchain)
    return Executable(plan, binary, device.load(plan, binary), device)
