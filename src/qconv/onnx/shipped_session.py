"""Sessions of networks that were exported as folders: the library for C++ runs them, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from qconv.device import Device, open_device
from qconv.network import Contender, Explanation, Memory, Profile, Value
from qconv.network.graph.value import Shape
from qconv.network.run.buffers import Buffer
from qconv.network.ship.opened import OpenedNetwork
from qconv.network.ship.ready_files import reading
from qconv.onnx import options
from qconv.onnx.fallback import open_part
from qconv.onnx.options import Feeds
from qconv.onnx.session import Session, fed, random_array
from qconv.op import WIDEST
from qconv.tuner.workload import NetworkProblems

if TYPE_CHECKING:
    from qconv.tune_db.database import Database

CHOSEN = "its kernels were chosen when it was exported: open the model for"


class ShippedSession(Session):
    """A session of a folder that `qconv-tune export` or `build` has written. It takes the shapes that it was written
    for. Layers that no kernel computes run in ONNX Runtime on the processor."""

    def __init__(
        self, model: Any, device: str | None = None, strict: bool = False, config: Any = None, **choices: Any
    ) -> None:
        options.check_strict(strict)
        if given := [name for name, value in {"config": config, **choices}.items() if value is not None]:
            raise ValueError(f"{model} has its own config, bits, floats and choices: leave {', '.join(given)} out")
        self._device = open_device(device.lower() if isinstance(device, str) else device)
        self._reading = reading(Path(model))
        with self._reading():
            self._network = OpenedNetwork(Path(model), self._device, open_part)
        self._numbers = {program.shapes: at for at, program in enumerate(self._network.programs)}
        first = self._network.programs[0]
        self._ports = {port.name: port for port in first.inputs}
        self._outputs = {port.name: port for port in first.outputs}

    def __repr__(self) -> str:
        inputs = ", ".join(f"{port.name} {port.dtype}{port.shape}" for port in self._ports.values())
        return f"<ShippedSession: {inputs} to {', '.join(self.output_names)} on {self.device.name}>"

    @property
    def device(self) -> Device:
        return self._device

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self._ports)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(self._outputs)

    def _dtype_of(self, name: str) -> str:
        return self._outputs[name].dtype

    @property
    def shapes(self) -> tuple[dict[str, Shape], ...]:
        """Return the shapes of the inputs that it takes."""
        return tuple({port.name: port.shape for port in one.inputs} for one in self._network.programs)

    def _run(
        self,
        output_names: Sequence[str] | None,
        feeds: Feeds,
        out: Mapping[str, Any] | None,
        as_array: Callable[[str, Value], Any],
    ) -> list[Any]:
        with self._reading():
            return super()._run(output_names, feeds, out, as_array)

    def prepare(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any] | None = None) -> None:
        """Raise ValueError for shapes that it was not exported for. All others are ready."""
        options.check_inputs({**shapes, **(values or {})}, self.input_names, self.input_names)
        self._number_of({**shapes, **{name: np.shape(array) for name, array in (values or {}).items()}})

    def random_feeds(self, seed: int = 0) -> dict[str, Any]:
        """Return random inputs of the first shapes that it takes."""
        rng = np.random.default_rng(seed)
        return {name: random_array(rng, port.shape, port.dtype) for name, port in self._ports.items()}

    @property
    def memory(self) -> Memory:
        """Return the bytes of the largest workspace of a run."""
        return Memory(arena_bytes=max(map(self._network.workspace_bytes, range(len(self._network.programs)))))

    @property
    def problems(self) -> NetworkProblems:
        self._has_none("its problems")

    def contender(self, rows: Database, in_sequence: bool) -> Contender:
        self._has_none("a race")

    def explain(self, profile: Profile | None = None) -> Explanation:
        self._has_none("a report")

    def profile(self, feeds: Feeds) -> Profile:
        self._has_none("a profile, or run qconv_run --profile")

    def _has_none(self, wanted: str) -> NoReturn:
        raise ValueError(f"{CHOSEN} {wanted}")

    def _number_of(self, shapes: Mapping[str, Sequence[int]]) -> int:
        """Return the program for inputs of these shapes."""
        asked = tuple(tuple(int(extent) for extent in shapes[name]) for name in self._ports)
        if asked not in self._numbers:
            known = "; ".join(", ".join(f"{name} {shape}" for name, shape in one.items()) for one in self.shapes)
            shown = ", ".join(f"{name} {shape}" for name, shape in zip(self._ports, asked, strict=True))
            raise ValueError(f"the folder was exported for {known}; {shown} was given: export it for these shapes too")
        return self._numbers[asked]

    def _values(self, names: Sequence[str], feeds: Feeds, buffers: Mapping[str, Buffer]) -> Mapping[str, Value]:
        given = options.checked_feeds(feeds, self.input_names, self.input_names)
        arrays = {name: fed(self._device, name, given[name], port.dtype)[0] for name, port in self._ports.items()}
        number = self._number_of({name: array.shape for name, array in arrays.items()})
        return self._network.run(number, [self._there(name, array) for name, array in arrays.items()], buffers)

    def _there(self, name: str, array: Any) -> Any:
        """Return the array on the device, contiguous, where kernels may read vectors of it."""
        if isinstance(array, np.ndarray) and self._device.target.vendor != "cpu":
            return self._device.upload(array)
        held = self._device.contiguous(array)
        if not self._device.adopt(name, held)[1] % WIDEST:
            return held
        copy = self._device.empty(held.shape, str(held.dtype))
        self._device.copy(held, copy)
        return copy


Session.of_folders = ShippedSession
