"""A plan compiled and loaded on a device: it takes arrays, and knows nothing of why its plan was chosen."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from qconv.device import Device, Kernel
from qconv.device.cache import Binary
from qconv.generator import Plan
from qconv.generator.tensor_map import TENSOR_MAP_BYTES, TensorMap
from qconv.instances.load.arguments import Adopted, check_aliasing, check_contiguous
from qconv.op import Problem, Tensor

Launcher = Callable[[Any], None]
# A part of the argument struct: its bytes, the name of an array whose address it is, or the map of such an array.
Member = bytes | str | TensorMap
# Encoded maps that are kept for one set of weights.
MOST_ENCODED = 64


class Refolds(Protocol):
    def refold(self, stream: Any = None) -> None: ...


class Bound:
    """A kernel with its arrays: calling it launches, and writes `y`.

    The parameters and what was folded from the weights are as they were when it was made; `refold()` after writing new
    weights into the same array.

    Its launches follow each other on one stream, since they share what the kernel keeps its partial sums in: for two at
    the same time, bind twice. Keep it for as long as a launch of it, or a graph with it, may run.
    """

    __slots__ = ("_packed", "_steps", "arrays", "launch", "y")

    def __init__(
        self,
        y: Any,
        launch: Launcher,
        packed: Refolds,
        arrays: dict[str, Adopted],
        steps: tuple[Bound, ...] = (),
    ) -> None:
        """`arrays`: the caller's by the names that the problem has for them, and what one kernel alone writes to.
        `steps`: the kernels in turn that it is made of, where it is made of several."""
        self.y = y
        self.launch = launch
        self._packed = packed
        self.arrays = arrays
        self._steps = steps

    @property
    def between(self) -> tuple[Any, ...]:
        """Arrays that one of its kernels writes for the next."""
        made = [array for step in self._steps for array in (*step.between, step.y)]
        return tuple(made[:-1])

    def __call__(self, stream: Any = None) -> Any:
        self.launch(stream)
        return self.y

    def refold(self, stream: Any = None) -> None:
        self._packed.refold(stream)


class Packed:
    """A kernel with what stays the same from call to call: the weights, in the layout that the kernel reads, the
    parameters, and what is folded from both. Pack once, run many."""

    def __init__(
        self,
        executable: Executable,
        weights: dict[str, Adopted],
        values: Any,
        turned: bool,
        stream: Any,
        like: Packed | None = None,
    ) -> None:
        """`like` was packed with the same parameters: what was uploaded of them is shared."""
        self.executable = executable
        self.places = weights
        self.values = values
        self.folded: dict[str, Any] = {}  # what the kernel of the weights writes, by its name in the source
        self._kept: list[Any] = [] if like is None else like._kept
        self._encoded: dict[tuple[TensorMap, int], bytes] = {}
        self._members = self._content({name: address for name, (_, address) in weights.items()}, like)
        arguments = self._arguments({})
        self._folds = [executable.kernel.bind(launch, arguments) for launch in executable.plan.prepare]
        self._scratch = [(field.path, (field.elements,)) for field in executable.plan.scratch]
        # Without weights a kernel reads nothing before it waits.
        reads_early = executable.plan.overlaps and bool(weights)
        self._fence = executable.device.empty((1,), "int32") if reads_early else None
        self.computed = turned or bool(self._folds)  # some of what the kernel reads
        self.fold(stream)

    @property
    def gains_by_overlap(self) -> bool:
        """Whether `overlap=True` should shorten a sequence of kernels that this one is in."""
        return self.executable.plan.overlaps

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
        """One call on the caller's stream (by default the current one); returns the output. `overlap`: see `bind`."""
        with self.executable.device.on(stream):
            return self.launch_once(inputs, out, stream, overlap)

    def in_sequence(self, *inputs: Any) -> Any:
        """One call as one of many on the current stream: it overlaps with the one before where that gains. Returns the
        output."""
        return self(*inputs, overlap=self.gains_by_overlap)

    def launch_once(self, inputs: Sequence[Any], out: Any, stream: Any, overlap: bool = False) -> Any:
        """The call itself, for who is on the stream already."""
        # What it allocates goes back to the pool of that stream, whose next user comes after the launch.
        return self.prepare(inputs, out, overlap)(stream)

    def beside(self, *weights: Any) -> Packed:
        """Other weights with the same parameters."""
        names = self.executable.problem.packed
        check_count(weights, names, "beside")
        tensors = {tensor.name: tensor for tensor in self.executable.problem.inputs}
        packed = {n: self.executable.array(tensors[n], array) for n, array in zip(names, weights, strict=True)}
        return Packed(self.executable, packed, self.values, False, None, like=self)

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False) -> Bound:
        """What launches with nothing left to do. `overlap`: see `Executable.bind`."""
        bound = self.prepare(inputs, out, overlap)
        # What was uploaded, folded and cleared must be there for launches on any stream.
        self.executable.device.synchronize()
        return bound

    def refold(self, stream: Any = None) -> None:
        """After writing new weights into the same array."""
        self.fold(stream)
        self.settle(stream)

    def fold(self, stream: Any) -> None:
        for fold in self._folds:
            fold(stream)

    def settle(self, stream: Any) -> None:
        """A launch that overlaps reads weights, and what was folded from them, before the kernel in front of it has
        ended. It waits for what is no kernel: behind this, the weights are as they were written."""
        if self._fence is not None:
            with self.executable.device.on(stream):
                self.executable.device.fill(self._fence, 0)

    @property
    def weights(self) -> dict[str, Any]:
        return {name: array for name, (array, _) in self.places.items()}

    def unpack(self, **layouts: str) -> dict[str, Any]:
        """The weights, in the layout asked for, and the parameters as they were checked: what pack was given."""
        relaid = self.executable.problem.relayout(layouts)
        check_layouts(layouts, self.executable.problem)
        unpacked = {}
        for name, array in self.weights.items():
            axes = relaid.get(name)
            inverse = None if axes is None else tuple(int(axis) for axis in np.argsort(axes))
            unpacked[name] = array if inverse is None else self.executable.device.contiguous(array.transpose(inverse))
        return unpacked | (vars(self.values) if self.values is not None else {})

    def prepare(self, inputs: Sequence[Any], out: Any, overlap: bool = False) -> Bound:
        """For who synchronizes himself before he launches on another stream."""
        executable = self.executable
        problem, plan, device = executable.problem, executable.plan, executable.device
        check_overlap(overlap, plan)
        wanted = [tensor for tensor in problem.inputs if tensor.name not in problem.packed]
        if len(inputs) != len(wanted):
            names = ", ".join(tensor.name for tensor in wanted)
            raise ValueError(f"{len(inputs)} arrays were given; this problem takes {len(wanted)}: {names}")
        arrays = {t.name: executable.array(t, a) for t, a in zip(wanted, inputs, strict=True)}
        several = len(problem.outputs) > 1
        outs = [None] * len(problem.outputs) if out is None else list(out) if several else [out]
        if len(outs) != len(problem.outputs):
            raise ValueError(f"out has {len(outs)} arrays; this problem writes {len(problem.outputs)}")
        for i, tensor in enumerate(problem.outputs):
            if outs[i] is None:
                instead_of = [arrays[name][1] for name in plan.in_place]
                outs[i] = device.empty(tensor.shape, tensor.dtype, instead_of)
            shown = Tensor(f"out[{i}]" if several else "out", tensor.shape, tensor.dtype)
            written = executable.array(shown, outs[i], tensor.name)
            if out is not None:
                check_aliasing(shown.name, written, arrays, plan.may_alias)
                check_aliasing(shown.name, written, self.places)
            arrays[tensor.name] = written
        for name, shape in self._scratch:
            arrays[name] = device.adopt(name, device.zeros(shape, "int32"))
        arguments = self._arguments({name: address for name, (_, address) in arrays.items()})
        launches = [executable.kernel.bind(each, arguments, overlap and each is plan.main) for each in plan.call]
        return Bound(tuple(outs) if several else outs[0], in_order(launches), self, arrays)

    def _content(self, addresses: dict[str, int], like: Packed | None) -> list[Member]:
        """The members of the argument struct; a name stands for the address of what each call has of its own."""
        device, problem = self.executable.device, self.executable.problem
        members: list[Member] = []
        for i, field in enumerate(self.executable.plan.fields):
            if field.tensor_map is not None:
                members.append(self._map_of(field.tensor_map, addresses))
            elif field.role == "scratch":
                members.append(field.path)
            elif field.role not in ("workspace", "value"):
                members.append(struct.pack("Q", addresses[field.role]) if field.role in addresses else field.role)
            elif like is not None and field.argument is not None:
                members.append(like._members[i])
            elif not field.is_pointer:
                members.append(field.value(problem, self.values))
            else:
                if field.argument is None:
                    array = self.folded[field.path] = device.empty((field.elements,), "int32")
                else:
                    content = np.frombuffer(field.value(problem, self.values), field.argument.dtype)
                    array = device.upload(content)
                    self._kept.append(array)
                members.append(struct.pack("Q", device.adopt(field.path, array)[1]))
        return members

    def _map_of(self, tensor_map: TensorMap, addresses: dict[str, int]) -> Member:
        """Encoded, where it is of weights or of what is folded from them."""
        name = tensor_map.array
        if name in self.folded:
            return self._encode(tensor_map, self.executable.device.adopt(name, self.folded[name])[1])
        return self._encode(tensor_map, addresses[name]) if name in addresses else tensor_map

    def _encode(self, tensor_map: TensorMap, address: int) -> bytes:
        """Callers mostly come back with the same few arrays."""
        key = tensor_map, address
        if key not in self._encoded:
            if len(self._encoded) >= MOST_ENCODED:
                self._encoded.clear()
            self._encoded[key] = self.executable.device.encode(tensor_map, address)
        return self._encoded[key]

    def _bytes_of(self, member: Member, addresses: dict[str, int]) -> bytes:
        """What has no address yet is zeros: no launch that is bound without it reads it."""
        if isinstance(member, bytes):
            return member
        if isinstance(member, str):
            return struct.pack("Q", addresses.get(member, 0))
        address = addresses.get(member.array)
        return bytes(TENSOR_MAP_BYTES) if address is None else self._encode(member, address)

    def _arguments(self, addresses: dict[str, int]) -> bytes:
        packed = bytearray(self.executable.plan.argument_bytes)
        for at, member in zip(self.executable.plan.offsets, self._members, strict=True):
            value = self._bytes_of(member, addresses)
            packed[at : at + len(value)] = value
        return bytes(packed)


def arrays_by_name(problem: Problem, inputs: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a call, which may be given in order or by name; those are taken out of what is named."""
    tensors = problem.inputs
    given = dict(zip((tensor.name for tensor in tensors), inputs, strict=False))
    if twice := [name for name in given if name in named]:
        raise ValueError(f"{twice[0]} was given twice, in order and by name: leave one out")
    given |= {tensor.name: named.pop(tensor.name) for tensor in tensors if tensor.name in named}
    if len(inputs) > len(tensors) or len(given) != len(tensors):
        names = ", ".join(tensor.name for tensor in tensors)
        raise ValueError(f"{max(len(inputs), len(given))} arrays were given; this problem takes {names}")
    return given


def check_count(weights: Sequence[Any], names: Sequence[str], function: str) -> None:
    if len(weights) != len(names):
        raise ValueError(f"{len(weights)} arrays were given to {function}; it takes {', '.join(names) or 'none'}")


def check_overlap(overlap: bool, plan: Plan) -> None:
    if overlap and not plan.overlaps:
        raise ValueError(
            f"overlap=True was given, but {plan.config.family} on {plan.target.name} does not wait by itself for what "
            "was launched before it: leave it out. NVIDIA targets from sm_90a on have kernels that do; "
            "instance.plan.overlaps tells"
        )


def check_layouts(left: dict[str, str], problem: Problem) -> None:
    """Refuses what is left of the layouts that were asked for, when the problem has taken its own."""
    if left:
        has = "takes w_layout alone" if "w" in problem.packed or problem.parts else "has no weights in another layout"
        raise ValueError(f"unpack was given {next(iter(left))}; {problem.op} {has}: leave it out")


def in_order(launches: list[Launcher]) -> Launcher:
    if len(launches) == 1:
        return launches[0]

    def launch(stream: Any = None) -> None:
        for each in launches:
            each(stream)

    return launch


@dataclass(frozen=True, eq=False)
class Executable:
    """One kernel with its launches. `Pair` is two in turn."""

    plan: Plan
    binary: Binary
    kernel: Kernel
    device: Device

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    def pack(self, *weights: Any, stream: Any = None, **named: Any) -> Packed:
        """Check the weights and the parameters, and fold what follows from both. What is given in another layout
        (`w_layout`) is copied; what is not is read where it lies."""
        with self.device.on(stream):
            packed = self._pack(weights, named, stream)
            packed.settle(stream)
        return packed

    def _pack(self, weights: Sequence[Any], named: dict[str, Any], stream: Any) -> Packed:
        """For who is on the stream already, and sees to it that nothing overlaps with what this launches."""
        problem = self.problem
        relaid = problem.relayout(named)
        wanted = [tensor for tensor in problem.inputs if tensor.name in problem.packed]
        weights = (*weights, *(named.pop(tensor.name) for tensor in wanted[len(weights) :] if tensor.name in named))
        check_count(weights, problem.packed, "pack")
        values = problem.checked({name: self.device.download(value) for name, value in named.items()})
        packed = {t.name: self.array(t, a, axes=relaid.get(t.name)) for t, a in zip(wanted, weights, strict=True)}
        return Packed(self, packed, values, bool(relaid), stream)

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False, **parameters: Any) -> Bound:
        """See `Instance.bind`, which says what `overlap` asks of the caller."""
        packed, rest = self._split(inputs, parameters, None)
        return packed.bind(*rest, out=out, overlap=overlap)

    def __call__(
        self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False, **parameters: Any
    ) -> Any:
        """See `Instance.__call__`."""
        with self.device.on(stream):
            packed, rest = self._split(inputs, parameters, stream)
            if overlap and packed.computed:
                packed.settle(stream)
            return packed.launch_once(rest, out, stream, overlap)

    def _split(self, inputs: Sequence[Any], named: dict[str, Any], stream: Any) -> tuple[Packed, list[Any]]:
        """Arrays may be given in order or by name; the weights among them are packed."""
        given = arrays_by_name(self.problem, inputs, named)
        weights = [given.pop(name) for name in self.problem.packed]
        return self._pack(weights, named, stream), list(given.values())

    def array(
        self, tensor: Tensor, array: Any, role: str | None = None, axes: tuple[int, ...] | None = None
    ) -> tuple[Any, int]:
        """The caller's array as ours, with its address; ValueError where the kernel cannot take it. `axes` is where
        the kernel's axes lie in it."""
        name = tensor.name
        array, address = self.device.adopt(name, array)
        if str(array.dtype) != tensor.dtype:
            raise ValueError(
                f"{name} has type {array.dtype}; this problem takes {tensor.dtype}: convert it or ask for its type"
            )
        if axes is not None and len(array.shape) == len(axes):
            array = self.device.contiguous(array.transpose(axes))
            array, address = self.device.adopt(name, array)
        if tuple(array.shape) != tensor.shape:
            raise ValueError(f"{name} has shape {tuple(array.shape)}; this problem takes {tensor.shape}")
        check_contiguous(name, array)
        alignment = self.plan.alignment[role or name]
        if address % alignment:
            raise ValueError(
                f"{name} lies at address {address:#x}; this kernel needs {alignment}-byte alignment: copy it"
            )
        return array, address
