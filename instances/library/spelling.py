"""The rules by which a library reads keys: for each op, the fields of a key, how each is spelled, and its default.
`qconv_keys.h` applies them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from qconv.arithmetic.mode import Mode
from qconv.arithmetic.quantization import Quantization
from qconv.conversion.problem import EPS, SCALED, Conversion, rule_and_mapping
from qconv.dtypes import RANGES
from qconv.expression.attention import Attention
from qconv.expression.problem import Expression
from qconv.op import Problem
from qconv.problem.chain import Chain
from qconv.problem.convolution import Conv2d
from qconv.problem.transposed import ConvTranspose2d
from qconv.tensor_ops.problem import TensorOp

TRANSPOSED = "conv_transpose2d"


@dataclass(frozen=True)
class KeyField:
    """`qconv::KeyField`. The default, `standard`, is None where there is none; `where` is the field and the value of it
    with which that is the default."""

    name: str
    spelled: str
    standard: str | None = None
    count: int = 0
    where: tuple[str, str] | None = None


def grammars(problems: Iterable[Problem]) -> dict[str, tuple[KeyField, ...]]:
    """Return the fields of the ops of these problems. A convolution can be spelled as a transposed one as well."""
    kinds = dict.fromkeys(kind for one in problems for kind in _kinds(one))
    found = {kind.op: tuple(_fields_of(kind)) for kind in kinds}
    if Conv2d in kinds:
        found[TRANSPOSED] = tuple(_convolution(ConvTranspose2d))
    return found


def _kinds(problem: Problem) -> tuple[type[Problem], ...]:
    """Return the kinds of problems whose keys make the key of a problem."""
    if isinstance(problem, Attention):
        return tuple(type(phase) for phase in problem.phases)
    return (Conv2d if isinstance(problem, Chain) else type(problem),)


def _fields_of(kind: type[Problem]) -> Iterator[KeyField]:
    if issubclass(kind, Conv2d):
        return _convolution(kind)
    if issubclass(kind, TensorOp):
        return _tensor_op(kind)
    if issubclass(kind, Conversion):
        return _conversion(kind)
    if issubclass(kind, Expression):
        return _expression(kind)
    raise ValueError(f"{kind.__name__} is a problem whose keys no library reads: export its sources (--format sources)")


def _given(kind: Any) -> list[Field[Any]]:
    return [entry for entry in fields(kind) if entry.init]


def _convolution(kind: type[Conv2d | ConvTranspose2d]) -> Iterator[KeyField]:
    for entry in _given(kind):
        if entry.name != "quantization":
            yield _plain(entry)
    for entry in (*_given(Quantization), *_given(Mode)):
        if entry.name != "mode":
            yield _plain(entry)


def _plain(entry: Field[Any]) -> KeyField:
    """Return a field that is spelled as its default is, and as an integer where it has none."""
    default = entry.default
    if default is MISSING:
        return KeyField(entry.name, "integer")
    if default is None:
        return KeyField(entry.name, "integers", "")
    if isinstance(default, bool):
        return KeyField(entry.name, "flag", "")
    if isinstance(default, tuple):
        return KeyField(entry.name, "integers", _joined(default), len(default))
    return KeyField(entry.name, "integer" if isinstance(default, int) else "text", str(default))


def _tensor_op(kind: type[TensorOp]) -> Iterator[KeyField]:
    for entry in _given(kind):
        standard = None if entry.default is MISSING else entry.default
        if entry.name in kind.flags:
            yield KeyField(entry.name, "flag", "")
        elif entry.name in kind.extents_of_key:
            yield KeyField(entry.name, "integers", _CONCAT.get(entry.name, _joined(standard or ())))
        else:
            spelled = "integer" if entry.name in kind.numbers else "text"
            yield KeyField(entry.name, spelled, None if standard is None else str(standard))


# The lists of a concatenation whose defaults follow from its widths.
_CONCAT = {"strides": "=widths", "offsets": "0*widths", "tables": "0*widths"}


def _conversion(kind: type[Conversion]) -> Iterator[KeyField]:
    of_type = [(dtype, range_) for dtype, range_ in RANGES.items()]
    for entry in _given(kind):
        if entry.name in ("low", "high"):
            for dtype, (low, high) in of_type:
                end = str(low if entry.name == "low" else high)
                yield KeyField(entry.name, "integer", end, where=("out_type", dtype))
        elif entry.name in ("rule", "mapping"):
            for dtype in SCALED:
                rule, mapping = rule_and_mapping(dtype)
                yield KeyField(entry.name, "text", rule if entry.name == "rule" else mapping, where=("out_type", dtype))
        elif entry.name == "eps":
            for rule, eps in EPS.items():
                yield KeyField(entry.name, "real", repr(eps), where=("rule", rule))
        else:
            yield _plain(entry)


def _expression(kind: type[Expression]) -> Iterator[KeyField]:
    for name in kind.axis_names:
        yield KeyField(name, "integers", "")
    yield KeyField("in", "operands", "")
    yield KeyField("out", "text")
    for name in kind.texts:
        yield KeyField(name, "text", "")
    yield KeyField("do", "text")


def _joined(values: Iterable[int]) -> str:
    return ",".join(map(str, values))
