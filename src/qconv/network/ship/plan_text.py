"""The text of a plan, as `qconv_shipped.cpp` reads it: a line for each thing, words separated by one space.

A place is one word, the first letter of its space, the number of the array there, and an offset if it has one: `a0+256`
is in the arena, `c10` a whole constant. Most words of a plan are the places of a launch's pointers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qconv.device import tensor_maps
from qconv.device.traced import Called, Copied, Filled, Gathered, Launched, Spot, Step
from qconv.generator.tensor_map import TensorMap
from qconv.network.ship.plan import Plan
from qconv.network.ship.program import Place, Port

FORMAT = "qconv-plan-2"
# Three zero bytes or more, in hexadecimal with "-" between bytes.
ZEROS = re.compile("00-00(-00)+")


@dataclass(frozen=True)
class Span:
    """Bytes of a file."""

    offset: int
    bytes: int


def plan_text(plan: Plan, kernels: Sequence[Span], constants: Sequence[Span], symbol: Callable[[Launched], str]) -> str:
    """Return the text. `kernels` are the places of the binaries, `constants` those of the constants; `symbol` names a
    launch's function."""
    return "".join(f"{line}\n" for line in _lines(plan, kernels, constants, symbol))


def _lines(
    plan: Plan, kernels: Sequence[Span], constants: Sequence[Span], symbol: Callable[[Launched], str]
) -> Iterator[str]:
    yield FORMAT
    yield f"target {plan.target.name} {plan.target.warp_size}"
    for span in kernels:
        yield f"kernel {span.offset} {span.bytes}"
    for span, constant in zip(constants, plan.constants, strict=True):
        yield f"constant {span.offset} {span.bytes} {int(constant.is_resident)}"
    for size in plan.state_bytes:
        yield f"state {size}"
    text = _Steps(plan, symbol)
    yield "setup"
    for one in plan.setup:
        yield from text.of(one.step, one.places)
    for program in plan.programs:
        yield f"program {program.arena_bytes}"
        yield from (_port("input", port) for port in program.inputs)
        yield from (_port("output", port) for port in program.outputs)
        made = iter([*program.made, None])
        tensor = next(made)
        for number, step in enumerate(program.steps):
            yield from text.of(step, program.places)
            while tensor is not None and tensor.step == number:
                yield f"made {quoted(tensor.name)} {int(tensor.is_last)} {_at(program.at(tensor.spot))} {tensor.bytes}"
                tensor = next(made)
    yield "end"


def _at(place: Place) -> str:
    return f"{place.space[0]}{place.number}{f'+{place.offset}' if place.offset else ''}"


def _port(word: str, port: Port) -> str:
    return f"{word} {quoted(port.name)} {port.dtype} {int(port.is_counted)} {_counted(port.shape)}"


@dataclass(frozen=True)
class _Steps:
    plan: Plan
    symbol: Callable[[Launched], str]

    def of(self, step: Step, places: Mapping[int, Place]) -> Iterator[str]:
        def at(spot: Spot) -> str:
            place = places[spot.allocation]
            return _at(replace(place, offset=place.offset + spot.offset))

        if isinstance(step, Launched):
            yield self._launch(step)
            if step.pointers:
                yield " ".join(["pointers", *(f"{offset} {at(spot)}" for offset, spot in step.pointers)])
            for offset, made, spot in step.maps:
                yield f"map {offset} {at(spot)} {self._map(made)}"
        elif isinstance(step, Filled):
            yield f"fill {at(step.to)} {step.bytes} {step.byte} {quoted(step.layer)}"
        elif isinstance(step, Copied):
            yield f"copy {at(step.to)} {at(step.source)} {step.bytes} {quoted(step.layer)}"
        elif isinstance(step, Gathered):
            numbers = f"{step.item_bytes} {_counted(step.shape)} {_counted(step.strides)}"
            yield f"gather {at(step.to)} {at(step.source)} {numbers} {quoted(step.layer)}"
        elif isinstance(step, Called):
            arrays = (
                " ".join([str(len(each)), *(f"{at(spot)} {size}" for spot, size in each)])
                for each in (step.inputs, step.outputs)
            )
            yield f"call {quoted(step.file)} {' '.join(arrays)} {quoted(step.layer)}"

    def _launch(self, step: Launched) -> str:
        launch = step.launch
        grid = " ".join(map(str, launch.grid))
        numbers = f"{grid} {launch.threads} {launch.smem_bytes} {launch.cluster} {int(step.overlap)}"
        kernel = self.plan.number_of(step.binary)
        return f"launch {kernel} {self.symbol(step)} {numbers} {in_hexadecimal(step.arguments)} {quoted(step.layer)}"

    def _map(self, made: TensorMap) -> str:
        if self.plan.target.vendor == "cpu":
            return in_hexadecimal(tensor_maps.described(made, 0))
        of = tensor_maps.DriverArguments.of(made)
        numbers = (of.type, of.swizzle, of.l2_promotion, int(of.is_im2col), of.channels, of.pixels)
        return f"{' '.join(map(str, numbers))} {' '.join(map(_counted, of.lists))}"


def in_hexadecimal(given: bytes) -> str:
    """Write bytes as one word, with a number in place of zeros in a row: most of a launch's arguments are zero until
    addresses and maps are filled in."""
    return ZEROS.sub(lambda run: f".{(len(run[0]) + 1) // 3}.", given.hex("-")).replace("-", "") or "-"


def _counted(numbers: Iterable[int]) -> str:
    """Write a list: how many there are, and each."""
    listed = [str(number) for number in numbers]
    return " ".join([str(len(listed)), *listed])


def quoted(text: str) -> str:
    """Write a name as one word: what is neither printable ASCII nor can be a part of a word becomes %XX."""
    return '"' + "".join(chr(b) if 33 <= b <= 126 and b not in b'%"' else f"%{b:02X}" for b in text.encode()) + '"'
