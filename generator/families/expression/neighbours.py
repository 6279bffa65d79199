"""Neighbouring terms of a factor of `matmul`, which a thread computes at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from qconv.dtypes import ELEMENT_TYPES
from qconv.expression.index import Axis
from qconv.expression.node import Load, Node, in_order, statements
from qconv.expression.problem import Expression
from qconv.generator.families.expression.lines import Lines, is_vector, vector_loaded
from qconv.op import WIDEST
from qconv.tensor_ops.problem import BYTES

# Terms of a factor in 16 bytes of shared memory, which a thread stores at a time.
CHUNK = 8


class TermLines(NamedTuple):
    """Lines of C++ that compute neighbouring terms."""

    begin: list[str]  # for all of them
    term: list[str]  # for the one numbered `lane`
    result: str


class Terms(NamedTuple):
    """A factor of `matmul_mma` as a C++ type."""

    name: str
    axis: str  # across k
    lines: TermLines


@dataclass(frozen=True)
class Neighbours:
    """As many neighbours along an axis as divide it, and the loads that read them as one."""

    problem: Expression
    inner: Axis | None
    vector: int
    loads: tuple[Load, ...]

    @classmethod
    def along(
        cls,
        problem: Expression,
        axes: Iterable[Axis],
        loads: Iterable[Load],
        types: Collection[str] = tuple(ELEMENT_TYPES),
    ) -> Neighbours:
        """Return the neighbours along the fastest of some axes; vectors are of elements of these types."""
        inner = next((axis for axis in reversed(tuple(axes)) if axis.extent > 1), None)
        if inner is None:
            return cls(problem, None, 1, ())
        vector = next(each for each in (CHUNK, CHUNK // 2, 1) if inner.extent % each == 0)
        dtypes = {load: problem.named[load.operand].dtype for load in dict.fromkeys(loads)}
        read = (
            load
            for load, dtype in dtypes.items()
            if dtype in types and vector * ELEMENT_TYPES[dtype].bytes <= WIDEST and is_vector(load, inner, vector)
        )
        return cls(problem, inner, vector, tuple(read))

    def lines(self, root: Node, before: list[str]) -> TermLines:
        """Return the lines of a factor's terms; those before them split the places of the first one into indices."""
        made, inner = statements(root), self.inner
        read = [node for node in in_order(root) if isinstance(node, Load)]
        numbers = {load: number for number, load in enumerate(self.loads) if load in read}
        lines = Lines(self.problem, lambda load: self._element(load, numbers[load]) if load in numbers else None)
        begin, inside = before, []
        if inner is not None:
            begin = [line.replace(f"const int {inner.name} ", f"const int first_{inner.name} ") for line in before]
            begin += [vector_loaded(load, inner, number, self.words(load)) for load, number in numbers.items()]
            inside = [f"[[maybe_unused]] const int {inner.name} = first_{inner.name} + lane;"]
        return TermLines(begin, [*inside, *lines.of(made)], made[-1].name)

    def words(self, load: Load) -> int:
        """Return the words of a vector of bytes; 0 for a vector of other elements."""
        return self.vector // 4 if self.problem.named[load.operand].dtype in BYTES else 0

    def _element(self, load: Load, number: int) -> str:
        if self.words(load):
            return f"tile::byte_as_int<{load.operand.upper()}>(v{number}.word[lane / 4], lane % 4)"
        return f"v{number}.element[lane]"
