"""A program whose setup ran when it was exported: what the setup makes of the weights is content of the folder.

A GPU prepares weights in microseconds, and a folder that has them once for all targets is smaller. The CPU device takes
half a second for those of MobileNetV2."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qconv.device import tensor_maps
from qconv.device.cpu import CpuKernel, aligned_bytes
from qconv.device.traced import Copied, Filled, Gathered, Launched, Spot, Step
from qconv.network.ship.program import Place, Program, read_by
from qconv.targets.target import Target


def prepared(program: Program, target: Target) -> Program:
    """Return the program for a CPU with all states as constants that its setup makes and no run writes."""
    kept = {number for step in program.steps for number in step.written}
    # A step of the setup that writes one state that is kept runs where the folder is opened, with all that it writes.
    while (
        more := {number for step in program.setup if not kept.isdisjoint(step.written) for number in step.written}
        - kept
    ):
        kept |= more
    setup = tuple(step for step in program.setup if not kept.isdisjoint(step.written))
    memory = _Memory(program, target)
    for step in program.setup:
        memory.take(step)
    made = {number for step in program.setup for number in step.written} - kept
    places = {number: place for number, place in program.places.items() if place.space not in ("constant", "state")}
    constants: list[bytes] = []
    states: list[int] = []
    for number in sorted(read_by((*setup, *program.steps)) - places.keys()):
        place = program.places[number]
        if place.space == "constant" or number in made:
            places[number] = Place("constant", len(constants), 0)
            constants.append(memory.array(number).tobytes() if number in made else program.constants[place.number])
        else:
            places[number] = Place("state", len(states), 0)
            states.append(program.state_bytes[place.number])
    return replace(program, setup=setup, places=places, constants=tuple(constants), state_bytes=tuple(states))


@dataclass(frozen=True)
class _Memory:
    """The arrays of a setup, by the numbers of their allocations, on the CPU."""

    program: Program
    target: Target
    arrays: dict[int, Any] = field(default_factory=dict)

    def array(self, number: int) -> Any:
        """Return the bytes of an allocation: a constant has its content, and a state zeros until it is written."""
        if number not in self.arrays:
            place = self.program.places[number]
            content = self.program.constants[place.number] if place.space == "constant" else None
            made = aligned_bytes(self.program.state_bytes[place.number] if content is None else len(content))
            made[...] = 0 if content is None else np.frombuffer(content, np.uint8)
            self.arrays[number] = made
        return self.arrays[number]

    def take(self, step: Step) -> None:
        if isinstance(step, Launched):
            self._launch(step)
        elif isinstance(step, Filled):
            self._at(step.to)[: step.bytes] = step.byte
        elif isinstance(step, Copied):
            self._at(step.to)[: step.bytes] = self._at(step.source)[: step.bytes]
        elif isinstance(step, Gathered):
            item = np.dtype((np.void, step.item_bytes))
            given = np.ndarray(step.shape, item, self.array(step.source.allocation), step.source.offset, step.strides)
            np.ndarray(step.shape, item, self.array(step.to.allocation), step.to.offset)[...] = given
        else:
            raise TypeError(f"a setup has no {type(step).__name__}")

    def _at(self, spot: Spot) -> Any:
        return self.array(spot.allocation)[spot.offset :]

    def _launch(self, step: Launched) -> None:
        arguments = bytearray(step.arguments)
        for offset, spot in step.pointers:
            arguments[offset : offset + 8] = self._address(spot).to_bytes(8, "little")
        for offset, tensor_map, spot in step.maps:
            described = tensor_maps.described(tensor_map, self._address(spot))
            arguments[offset : offset + len(described)] = described
        CpuKernel(self.target, step.binary, [step.launch]).bind(step.launch, bytes(arguments))()

    def _address(self, spot: Spot) -> int:
        return int(self.array(spot.allocation).ctypes.data) + spot.offset
