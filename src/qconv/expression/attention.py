"""The op `attention`: a product, a reduction of each row of it, and a product with what that gives, as one problem: the
attention of a transformer. Its outputs are those of the three, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Self, TypeVar

from qconv.dtypes import ELEMENT_TYPES
from qconv.expression import matmul, reduce
from qconv.expression.index import Index, flat
from qconv.expression.matmul import MatMul
from qconv.expression.node import Load, Lookup, Node, in_order, replaced, text_of, with_indices
from qconv.expression.problem import MOST_OPERANDS, Expression, Operand, draw
from qconv.expression.reduce import Reduce
from qconv.op import BETWEEN, Array, Op, Option, Problem, Sample, Tensor, parts_of_key, quoted

Part = TypeVar("Part", MatMul, Reduce)
# The operand of a part that is the output of the part before.
CHAINED = "x0"


@dataclass(frozen=True, eq=False)
class Attention(Problem):
    """`scores` of rows and keys, `weights` of the scores of a row, and `values`: sums of the weights' products. The
    operand x0 of the latter two is what the part before gives; the others are operands of the whole, in order."""

    op: ClassVar[str] = "attention"

    scores: MatMul
    weights: Reduce
    values: MatMul
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        scores, weights, values = self.phases
        if scores.order:
            raise ValueError(f"the scores have order={scores.order}: their axes are those of batch, m and n")
        if weights.row_count * weights.column_count != scores.elements or weights.column_count != prod(scores.n):
            raise ValueError(
                f"the weights have rows={weights.rows} of columns={weights.columns}, and the scores {prod(scores.n)} "
                "columns: each row of the scores is one of the weights"
            )
        if not weights.has_columns:
            raise ValueError("the weights have one number per row: there is one for each score")
        for name in ("batch", "m"):
            if prod(getattr(values, name)) != prod(getattr(scores, name)):
                raise ValueError(
                    f"{name}={getattr(values, name)} of the values, but {getattr(scores, name)} of the scores: they "
                    "have the same rows"
                )
        if values.depth != weights.column_count:
            raise ValueError(f"the values have k={values.k}, which are {weights.column_count} keys")
        _check_chained("weights", weights, scores, (*weights.axes_of("rows"), *weights.axes_of("columns")))
        axes = (axis for name in ("batch", "m", "k") for axis in values.axes_of(name))
        _check_chained("values", values, weights, tuple(axes))
        if any(_reads(node) for root in (values.right, values.epilogue) for node in in_order(root)):
            raise ValueError("the values read a weight beside the left factor; they multiply weights, and no more")
        if len(self.operands) + 2 > MOST_OPERANDS:
            raise ValueError(f"the parts have {len(self.operands)} operands; at most {MOST_OPERANDS - 2} are supported")
        self._name(BETWEEN.join(map(str, self.phases)))

    @property
    def phases(self) -> tuple[MatMul, Reduce, MatMul]:
        return self.scores, self.weights, self.values

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.scores.operands, *self.weights.operands[1:], *self.values.operands[1:])

    @cached_property
    def named(self) -> Mapping[str, Operand]:
        return {f"x{at}": operand for at, operand in enumerate(self.operands)}

    @cached_property
    def joined(self) -> tuple[MatMul, Reduce, MatMul]:
        """Return the parts with the operands of the whole. Behind these are the scores, and the weights."""
        scores, weights, values = self.phases
        first, second = self._ends
        return (
            _renamed(scores, self, {f"x{at}": f"x{at}" for at in range(first)}),
            _renamed(weights, self, _names(weights, first, self.chained[0])),
            _renamed(values, self, _names(values, second, self.chained[1])),
        )

    @property
    def _ends(self) -> tuple[int, int]:
        """Return where the operands of the scores end, and those of the weights."""
        first = len(self.scores.operands)
        return first, first + len(self.weights.operands) - 1

    def arrays_of(self, arrays: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Array], Sequence[Array]]:
        """Return the arrays of each phase, without what the phase before gives."""
        first, second = self._ends
        return arrays[:first], arrays[first:second], arrays[second:]

    @property
    def chained(self) -> tuple[str, str]:
        """Return the names of the scores and of the weights, as the joined parts read them."""
        return f"x{len(self.operands)}", f"x{len(self.operands) + 1}"

    @property
    def between(self) -> tuple[Operand, Operand]:
        """Return what a part hands to the next one."""
        return self.weights.operands[0], self.values.operands[0]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(Tensor(name, (operand.elements,), operand.dtype) for name, operand in self.named.items())

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.values.outputs

    @property
    def packed(self) -> tuple[str, ...]:
        return tuple(name for name, operand in self.named.items() if operand.is_constant)

    @property
    def io_bytes(self) -> int:
        between = sum(one.elements * ELEMENT_TYPES[one.dtype].bytes for one in self.between)
        return sum(phase.io_bytes for phase in self.phases) - 2 * between

    @property
    def operations(self) -> int:
        return self.scores.operations + self.values.operations

    @property
    def floats(self) -> str:
        return self.scores.floats or self.values.floats

    @property
    def extents(self) -> dict[str, int]:
        return {**self.scores.extents, "d": prod(self.values.n)}

    @property
    def kinds(self) -> tuple[object, ...]:
        return tuple(kind for part in self.phases for kind in part.kinds)

    @property
    def shape_class(self) -> tuple[object, ...]:
        return tuple(each for part in self.phases for each in part.shape_class)

    @classmethod
    def read(cls, key: str) -> Self:
        given = parts_of_key(key)
        names = [part.strip().partition(":")[0] for part in given]
        if names != [MatMul.op, Reduce.op, MatMul.op]:
            raise ValueError(
                f"the key {quoted(key)} joins {', '.join(names)}; an attention is a matmul, a reduce and a matmul"
            )
        return cls(MatMul.read(given[0]), Reduce.read(given[1]), MatMul.read(given[2]))


def _reads(node: Node) -> bool:
    return isinstance(node, Load | Lookup) and node.operand == CHAINED


def _check_chained(what: str, part: Expression, before: Expression, axes: tuple[Any, ...]) -> None:
    """Raise ValueError unless a part reads each element of the part before at the element's own place."""
    given = part.operands[0] if part.operands else None
    if given is None or given.is_constant or (given.dtype, given.elements) != (before.y_type, prod(before.y_shape)):
        shown = "none" if given is None else given.text
        raise ValueError(
            f"x0 of the {what} is {shown}: it is what the part before gives, {before.y_type}*{prod(before.y_shape)}"
        )
    own = flat(map(Index.of, axes), [axis.extent for axis in axes])
    read = [node for node in in_order(part.root) if _reads(node)]
    if not read or any(not isinstance(node, Load) or node.guards or node.at != own for node in read):
        raise ValueError(f"the {what} read x0 at other places than x0[{own}]")


def _names(part: Expression, first: int, chained: str) -> dict[str, str]:
    """Return the names of a part's operands in the whole."""
    others = {f"x{at + 1}": f"x{first + at}" for at in range(len(part.operands) - 1)}
    return {CHAINED: chained, **others}


def _renamed(part: Part, whole: Attention, names: Mapping[str, str]) -> Part:
    def change(node: Node) -> Node | None:
        node = with_indices(node, lambda index: index.renamed(names))
        return replace(node, operand=names[node.operand]) if isinstance(node, Load | Lookup) else node

    text = text_of(replaced(part.root, change))
    return replace(part, operands=(*whole.operands, *whole.between), do=text)


def compute(problem: Attention, drawn: Sample) -> tuple[Array, ...]:
    first, second, third = problem.arrays_of(drawn.arrays)
    made = matmul.compute(problem.scores, Sample(tuple(first)))
    made = reduce.compute(problem.weights, Sample((*made, *second)))
    return matmul.compute(problem.values, Sample((*made, *third)))


def ask(given: Mapping[str, Any]) -> Attention:
    return Attention.read(BETWEEN.join(given[option.name] for option in OPTIONS))


OPTIONS = (
    Option("scores", "attention: the key of the product that makes the scores.", metavar="KEY", required=True),
    Option("weights", "attention: the key of the reduction that makes weights.", metavar="KEY", required=True),
    Option("values", "attention: the key of the product of the weights.", metavar="KEY", required=True),
)


OP = Op(
    name=Attention.op,
    says="A product, a softmax of its rows, and a product with these.",
    problems=(Attention,),
    read=Attention.read,
    ask=ask,
    options=OPTIONS,
    draw=draw,
    compute=compute,
    instead="give --scores KEY, --weights KEY and --values KEY, which say everything",
    joins=Reduce.op,
)
