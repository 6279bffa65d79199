"""An entry of the library's table: a winner with its numbered tensors and the sources of its kernels' arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from qconv.dtypes import ELEMENT_TYPES
from qconv.instances.library.export import Exported, Served
from qconv.op import Problem, Tensor
from qconv.problem.chain import Chain
from qconv.problem.convolution import Conv2d
from qconv.tensor_ops.host_values import Scaled


@dataclass(frozen=True)
class Placed:
    """A tensor with its role in `qconv_table.h`, the alignment that all its kernels need, and whether the caller may
    pass it as the output."""

    tensor: Tensor
    role: str
    alignment: int = 1
    may_be_output: bool = False

    @property
    def bytes(self) -> int:
        return prod(self.tensor.shape) * ELEMENT_TYPES[self.tensor.dtype].bytes


@dataclass(frozen=True)
class Entry:
    served: Served

    @property
    def problem(self) -> Problem:
        return self.served.winner.problem

    @property
    def kernels(self) -> tuple[Exported, ...]:
        return self.served.kernels

    @cached_property
    def layers(self) -> tuple[tuple[str, Conv2d | Scaled], ...]:
        """The parts of the problem that have parameters, by name: the convolutions of a chain, or a single convolution
        or op."""
        if isinstance(self.problem, Chain):
            return tuple(self.problem.layers.items())
        return (("", self.problem),) if isinstance(self.problem, Conv2d | Scaled) else ()

    def parameter_names(self, layer: str) -> dict[str, str]:
        """Map a layer's names of its parameters to the problem's. Empty where they are the same."""
        return self.problem.names(layer) if isinstance(self.problem, Chain) else {}

    @cached_property
    def names_in(self) -> tuple[dict[str, str], ...]:
        """For each kernel, a map from its own problem's tensor names to those of the whole problem."""
        weights = iter(self.problem.packed)
        found = []
        for i, kernel in enumerate(self.kernels):
            own = kernel.plan.problem
            names = {tensor.name: tensor.name for tensor in (*own.inputs, *own.outputs)}
            names |= {name: next(weights) for name in own.packed}
            if i > 0:
                names["x"] = _between(i - 1)
            if i < len(self.kernels) - 1:
                names["y"] = _between(i)
            found.append(names)
        return tuple(found)

    @cached_property
    def first_layers(self) -> tuple[int, ...]:
        """For each kernel, the index of its first convolution among those of the problem."""
        firsts, at = [], 0
        for kernel in self.kernels:
            firsts.append(at)
            own = kernel.plan.problem
            at += len(own.LAYERS) if isinstance(own, Chain) else 1
        return tuple(firsts)

    @cached_property
    def tensors(self) -> tuple[Placed, ...]:
        problem = self.problem
        placed = [Placed(t, "weights" if t.name in problem.packed else "input") for t in problem.inputs]
        placed += [Placed(tensor, "output") for tensor in problem.outputs]
        for i, kernel in enumerate(self.kernels[:-1]):
            (made,) = kernel.plan.problem.outputs
            placed.append(Placed(Tensor(_between(i), made.shape, made.dtype), "between"))
        # Only the last kernel reads these. The first of several reads only x of the caller's arrays.
        may_be_output = {self.names_in[-1][own] for own in self.kernels[-1].plan.may_alias}
        return tuple(
            replace(one, alignment=self._alignment(one.tensor.name), may_be_output=one.tensor.name in may_be_output)
            for one in placed
        )

    def _alignment(self, name: str) -> int:
        return max(
            (
                kernel.plan.alignment.get(own, 1)
                for kernel, names in zip(self.kernels, self.names_in, strict=True)
                for own, whole in names.items()
                if whole == name
            ),
            default=1,
        )

    def number_of(self, name: str) -> int:
        """Return the index of a tensor, by the problem's name for it."""
        return [one.tensor.name for one in self.tensors].index(name)


def _between(number: int) -> str:
    """Name the tensor that one kernel writes for the next."""
    return f"between {number}"
