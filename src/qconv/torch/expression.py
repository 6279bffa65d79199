"""The op expression: layers between quantized layers, as the text of a `Program`, in one kernel wherever one computes
them. It has the readers, the fusion and the kernels of ONNX's layers, and so their bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from qconv.instances.load.serving import lookup
from qconv.network import Network
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.graph.value import last_of
from qconv.op import WIDEST
from qconv.torch.arrays import aligned, allocating_on, array_of, device_of, is_capturing, name_of, stream_of
from qconv.torch.packing import packing_of
from qconv.torch.program import Program, program_of
from qconv.torch.schema import Given


def fake_expression(given: Given) -> Any:
    """Return an empty output, in the order of axes that the program states."""
    inputs, program = _given(given)
    shape = program.shape([x.shape for x in inputs])
    order = _last_order(len(shape)) if program.is_last else range(len(shape))
    dtype = getattr(torch, program.described.dtype)
    y = torch.empty([shape[axis] for axis in order], dtype=dtype, device=inputs[0].device)
    return y.permute(_back(order))


def _last_order(rank: int) -> tuple[int, ...]:
    return last_of(range(rank))


def _back(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _given(given: Given) -> tuple[Sequence[Any], Program]:
    inputs, program = given["inputs"], program_of(given["program"])
    if not inputs:
        raise ValueError("inputs is empty; an expression reads at least one tensor, whose device it runs on")
    if len(inputs) == len(program.inputs):
        for name, x in zip(program.inputs, inputs, strict=True):
            if name_of(x.dtype) != program.tensors[name].dtype:
                raise ValueError(
                    f"an input has type {x.dtype}; the expression reads torch.{program.tensors[name].dtype} there: "
                    "give the tensors of the graph that it was lowered from"
                )
    return inputs, program


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel of an expression that is ready. `reads` are the names of its operands, `shape` is that of its output in
    memory."""

    packed: Any
    reads: tuple[str, ...]
    y: str
    dtype: Any
    shape: tuple[int, ...]
    is_last: bool

    def run(self, flat: Mapping[str, Any], y: Any, stream: Any) -> None:
        """Run on the caller's stream. `flat` are the elements of tensors in their order in memory."""
        arrays = [array_of(flat[name]) for name in self.reads]
        out = array_of(y).reshape(self.packed.executable.problem.outputs[0].shape)
        self.packed.prepare(arrays, out, self.packed.gains_by_overlap)(stream)


def express(given: Given) -> Any:
    """Run an expression."""
    inputs, program = _given(given)
    y = fake_expression(given)
    if not y.numel():
        return y
    taken = [_in_memory(x) for x in inputs]
    lasts = tuple(_is_last(x) for x in taken)
    shapes = tuple(tuple(x.shape) for x in taken)
    place = y.device
    packing = packing_of(
        ((shapes, lasts), (given["program"], place)), (), place, lambda: _launches(program, shapes, lasts, place)
    )
    flat = {
        name: aligned(x.permute(_last_order(x.dim())) if last else x, WIDEST).reshape(-1)
        for name, x, last in zip(program.inputs, taken, lasts, strict=True)
    }
    with allocating_on(place), device_of(place).on(stream_of(place)):
        for launch in packing.packed:
            is_y = launch.y == program.output
            fits = is_y and (launch.is_last == program.is_last or len(launch.shape) < 3)
            order = _last_order(y.dim()) if program.is_last else range(y.dim())
            made = y.permute(tuple(order)) if fits else torch.empty(launch.shape, dtype=launch.dtype, device=place)
            launch.run(flat, made, stream_of(place))
            flat[launch.y] = made.reshape(-1)
            if is_y and not fits:
                y.copy_(made.permute(_back(_last_order(y.dim()))) if launch.is_last else made)
    if is_capturing(place) and packing.packed not in packing.captured:
        packing.captured.append(packing.packed)
    return y


def _in_memory(x: Any) -> Any:
    """Return a tensor whose elements lie without gaps, in its own order of axes or with the channels last."""
    return x if x.is_contiguous() or _is_last(x) else x.contiguous()


def _is_last(x: Any) -> bool:
    """True where the channels are last in memory, and the tensor is not contiguous as it is."""
    return bool(x.dim() > 2 and not x.is_contiguous() and x.permute(_last_order(x.dim())).is_contiguous())


def _launches(
    program: Program, shapes: Sequence[tuple[int, ...]], lasts: Sequence[bool], place: Any
) -> tuple[Launch, ...]:
    """Choose and load the kernels for inputs of these shapes and orders of axes. This waits for the GPU."""
    device, stream = device_of(place), stream_of(place)
    is_last = dict(zip(program.inputs, lasts, strict=True))
    made = []
    with device.on(stream):
        for one in expressed(program.network(shapes), program.output, program.is_last):
            kernel = one.kernel(tuple(is_last[name] for name in one.inputs))
            constants = [names for names in kernel.tensors if names[0] in one.constants]
            arrays = (np.concatenate([one.constants[name].reshape(-1) for name in names]) for names in constants)
            instance = lookup(kernel.problem, device.spec)
            packed = instance.pack(*map(device.upload, arrays), stream=stream)
            is_last[one.y] = kernel.is_last
            shape = last_of(kernel.y_shape) if kernel.is_last else kernel.y_shape
            reads = tuple(names[0] for names in kernel.tensors if names[0] not in one.constants)
            dtype = getattr(torch, kernel.problem.outputs[0].dtype)
            made.append(Launch(packed, reads, one.y, dtype, shape, kernel.is_last))
        device.synchronize()
    return tuple(made)


def expressed(network: Network, output: str, is_last: bool) -> list[Expressed]:
    """Return the kernels of a network's layers, in their order. Raise ValueError where one has none."""
    fused, served, why_not = fuse(network, {})
    made = []
    for layer in fused.layers:
        one = served.get(layer.name)
        if not isinstance(one, Expressed):
            why = why_not.get(layer.name, f"no kernel here computes {layer.op}")
            raise ValueError(f"{layer.op} has no kernel for inputs of these shapes: {why}")
        made.append(replace(one, wants_last=is_last) if one.y == output else one)
    return made
