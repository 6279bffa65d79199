"""A plan that is compiled and loaded on a device: packs weights, binds arrays and launches. It does not depend on how
the plan was chosen."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from qconv.device import Device, Kernel
from qconv.device.cache import Binary
from qconv.dtypes import BITS_OF_FLOAT8, FLOAT8
from qconv.generator import Plan
from qconv.generator.tensor_map import TENSOR_MAP_BYTES, TensorMap
from qconv.instances.load.arguments import Adopted, check_aliasing, check_contiguous
from qconv.op import Problem, Tensor

Launcher = Callable[[Any], None]
# A member of the argument struct: its bytes, the name of an array whose address it is, or the tensor map of such an
# array.
Member = bytes | str | TensorMap
# Encoded tensor maps that are cached per set of weights.
MOST_ENCODED = 64


class Refolds(Protocol):
    @property
    def executable(self) -> Any: ...
    def refold(self, stream: Any = None) -> None: ...


class Bound:
    """A kernel bound to its arrays: a call launches it and writes `y`.

    Parameters and folded weights are as they were when it was made. Call `refold()` after writing new weights into the
    same array.

    Its launches have to follow each other on one stream, because they share the scratch memory of partial sums. For
    concurrent launches, bind twice. Keep the object alive as long as a launch of it, or a graph that contains one, may
    run.
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
        """Make a bound kernel. `arrays` are the caller's, by the problem's names, and the scratch memory. `steps` are
        the kernels it consists of, if there are several."""
        self.y = y
        self.launch = launch
        self._packed = packed
        self.arrays = arrays
        self._steps = steps

    def __repr__(self) -> str:
        runs = self._packed.executable
        return f"<Bound: {', '.join(self.arrays)} of {runs.problem} on {runs.device.name}>"

    @property
    def between(self) -> tuple[Any, ...]:
        """Intermediate tensors between its kernels."""
        made = [array for step in self._steps for array in (*step.between, step.y)]
        return tuple(made[:-1])

    def __call__(self, stream: Any = None) -> Any:
        self.launch(stream)
        return self.y

    def refold(self, stream: Any = None) -> None:
        self._packed.refold(stream)


class Packed:
    """A kernel with all that stays the same between calls: the weights in the layout that the kernel reads, the
    parameters, and the values folded from both. Pack once, run many times."""

    def __init__(
        self,
        executable: Executable,
        weights: dict[str, Adopted],
        values: Any,
        turned: bool,
        stream: Any,
        like: Packed | None = None,
    ) -> None:
        """Pack weights. `like` was packed with the same parameters, whose uploaded values are shared."""
        self.executable = executable
        self.places = weights
        self.values = values
        self.folded: dict[str, Any] = {}  # arrays that the prepare kernels write, by name in the source
        self._kept: list[Any] = [] if like is None else like._kept
        self._encoded: dict[tuple[TensorMap, int], bytes] = {}
        self._members = self._content({name: address for name, (_, address) in weights.items()}, like)
        arguments = self._arguments({})
        self._folds = [executable.kernel.bind(launch, arguments) for launch in executable.plan.prepare]
        self._scratch = [(field.path, (field.elements,)) for field in executable.plan.scratch]
        # Without weights, a kernel reads nothing before it waits.
        reads_early = executable.plan.overlaps and bool(weights)
        self._fence = executable.device.empty((1,), "int32") if reads_early else None
        self.computed = turned or bool(self._folds)  # the kernel reads weights or values that were computed here
        self.fold(stream)

    def __repr__(self) -> str:
        return f"<Packed: weights of {self.executable.problem} on {self.executable.device.name}>"

    @property
    def gains_by_overlap(self) -> bool:
        """True where `overlap=True` should shorten a sequence of kernels that contains this one."""
        return self.executable.plan.overlaps

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False) -> Any:
        """Run once on the caller's stream (by default the current one) and return the output. For `overlap` see
        `bind`."""
        with self.executable.device.on(stream):
            return self.launch_once(inputs, out, stream, overlap)

    def in_sequence(self, *inputs: Any) -> Any:
        """Run once as part of a sequence on the current stream, overlapping with the previous kernel where that helps.
        Return the output."""
        return self(*inputs, overlap=self.gains_by_overlap)

    def launch_once(self, inputs: Sequence[Any], out: Any, stream: Any, overlap: bool = False) -> Any:
        """Run once. The caller has already entered the stream."""
        # Temporary memory returns to the pool of this stream, whose next user comes after the launch.
        return self.prepare(inputs, out, overlap)(stream)

    def beside(self, *weights: Any) -> Packed:
        """Pack other weights with the same parameters."""
        names = self.executable.problem.packed
        check_count(weights, names, "beside")
        tensors = {tensor.name: tensor for tensor in self.executable.problem.inputs}
        packed = {n: self.executable.array(tensors[n], array) for n, array in zip(names, weights, strict=True)}
        return Packed(self.executable, packed, self.values, False, None, like=self)

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False) -> Bound:
        """Bind arrays, so that nothing but the launch is left to do. For `overlap` see `Executable.bind`."""
        bound = self.prepare(inputs, out, overlap)
        # Uploaded, folded and cleared memory has to be complete for launches on any stream.
        self.executable.device.synchronize()
        return bound

    def refold(self, stream: Any = None) -> None:
        """Fold and repack again, after new weights were written into the same array."""
        self.fold(stream)
        self.settle(stream)

    def fold(self, stream: Any) -> None:
        for fold in self._folds:
            fold(stream)

    def settle(self, stream: Any) -> None:
        """Make the weights visible to launches that overlap. Such a launch reads weights and folded values before the
        previous kernel has ended, but it does wait for anything that is not a kernel, such as this fill."""
        if self._fence is not None:
            with self.executable.device.on(stream):
                self.executable.device.fill(self._fence, 0)

    @property
    def weights(self) -> dict[str, Any]:
        return {name: array for name, (array, _) in self.places.items()}

    def unpack(self, **layouts: str) -> dict[str, Any]:
        """Return the arguments of `pack`: the weights in the requested layout, and the parameters after their
        checks."""
        relaid = self.executable.problem.relayout(layouts)
        check_layouts(layouts, self.executable.problem)
        unpacked = {}
        for name, array in self.weights.items():
            axes = relaid.get(name)
            inverse = None if axes is None else tuple(int(axis) for axis in np.argsort(axes))
            unpacked[name] = array if inverse is None else self.executable.device.contiguous(array.transpose(inverse))
        return unpacked | (vars(self.values) if self.values is not None else {})

    def prepare(self, inputs: Sequence[Any], out: Any, overlap: bool = False) -> Bound:
        """Bind arrays without synchronizing. A caller that launches on another stream has to synchronize first."""
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
        """Return the members of the argument struct. A name stands for an address that each call provides."""
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
        """Return the encoded map where the array is of weights or folded values, otherwise the map itself."""
        name = tensor_map.array
        if name in self.folded:
            return self._encode(tensor_map, self.executable.device.adopt(name, self.folded[name])[1])
        return self._encode(tensor_map, addresses[name]) if name in addresses else tensor_map

    def _encode(self, tensor_map: TensorMap, address: int) -> bytes:
        """Encode a map. Cached, because callers mostly pass the same few arrays again."""
        key = tensor_map, address
        if key not in self._encoded:
            if len(self._encoded) >= MOST_ENCODED:
                self._encoded.clear()
            self._encoded[key] = self.executable.device.encode(tensor_map, address)
        return self._encoded[key]

    def _bytes_of(self, member: Member, addresses: dict[str, int]) -> bytes:
        """Return a member's bytes. An address that is not known yet is zero: no launch bound without it reads it."""
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
    """Return the arrays of a call by name. They may be given in order or by name; the latter are removed from
    `named`."""
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
    """Reject layout arguments that the problem did not consume."""
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
    """A kernel with its launches. `Pair` is a sequence of two."""

    plan: Plan
    binary: Binary
    kernel: Kernel
    device: Device

    def __repr__(self) -> str:
        return f"<Executable: {self.plan.config} for {self.problem} on {self.device.name}>"

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    def pack(self, *weights: Any, stream: Any = None, **named: Any) -> Packed:
        """Check the weights and the parameters, and fold what depends on both. Weights in another layout (`w_layout`)
        are copied, all others are used in place."""
        with self.device.on(stream):
            packed = self._pack(weights, named, stream)
            packed.settle(stream)
        return packed

    def _pack(self, weights: Sequence[Any], named: dict[str, Any], stream: Any) -> Packed:
        """Pack weights. The caller has entered the stream and ensures that nothing overlaps with these launches."""
        problem = self.problem
        relaid = problem.relayout(named)
        wanted = [tensor for tensor in problem.inputs if tensor.name in problem.packed]
        weights = (*weights, *(named.pop(tensor.name) for tensor in wanted[len(weights) :] if tensor.name in named))
        check_count(weights, problem.packed, "pack")
        values = problem.checked({name: self.device.download(value) for name, value in named.items()})
        packed = {t.name: self.array(t, a, axes=relaid.get(t.name)) for t, a in zip(wanted, weights, strict=True)}
        return Packed(self, packed, values, bool(relaid), stream)

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False, **parameters: Any) -> Bound:
        """Bind arrays. `Instance.bind` describes what `overlap` requires of the caller."""
        packed, rest = self._split(inputs, parameters, None)
        return packed.bind(*rest, out=out, overlap=overlap)

    def __call__(
        self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False, **parameters: Any
    ) -> Any:
        """Call the kernel, see `Instance.__call__`."""
        with self.device.on(stream):
            packed, rest = self._split(inputs, parameters, stream)
            if overlap and packed.computed:
                packed.settle(stream)
            return packed.launch_once(rest, out, stream, overlap)

    def _split(self, inputs: Sequence[Any], named: dict[str, Any], stream: Any) -> tuple[Packed, list[Any]]:
        """Pack the weights among the arrays, which may be given in order or by name, and return the rest."""
        given = arrays_by_name(self.problem, inputs, named)
        weights = [given.pop(name) for name in self.problem.packed]
        return self._pack(weights, named, stream), list(given.values())

    def array(
        self, tensor: Tensor, array: Any, role: str | None = None, axes: tuple[int, ...] | None = None
    ) -> tuple[Any, int]:
        """Convert a caller's array to the device's kind and return it with its address. Raises ValueError where the
        kernel cannot take it. `axes` are the positions of the kernel's axes in the array."""
        name = tensor.name
        array, address = self.device.adopt(name, array)
        bits = tensor.dtype in FLOAT8 and str(array.dtype) == BITS_OF_FLOAT8
        if str(array.dtype) != tensor.dtype and not bits:
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
