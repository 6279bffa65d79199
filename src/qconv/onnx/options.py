"""Checks of a session's arguments besides the model. A wrong one is rejected here rather than failing later or being
silently misread."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

import onnx
import onnxruntime

from qconv.network import Choices, Network, Tensor
from qconv.op import quoted

# The setting for models in which ONNX Runtime computes a convolution of quantized tensors in floats.
INT8_ALLOWED = "session.qdqisint8allowed"
# On a CPU without VNNI, sums of uint8 activations and int8 weights saturate there, unless they are asked to be exact.
EXACT_SUMS = {"session.x64quantprecision": "1"}

# Arrays by the names of inputs, or in the order of those that must be fed.
Feeds = Mapping[str, Any] | Sequence[Any]


OWN_FUSIONS = frozenset(
    {
        *("AttentionFusion", "BiasGeluFusion", "BiasSkipLayerNormFusion", "BiasSoftmaxFusion", "ConvActivationFusion"),
        *("ConvAddActivationFusion", "DivMulFusion", "EmbedLayerNormFusion", "FastGeluFusion", "GeluFusion"),
        *("GeluFusionL1", "GeluFusionL2", "GemmActivationFusion", "MatMulActivationFusion", "MatMulScaleFusion"),
        *("MatmulTransposeFusion", "QuickGeluFusion", "SkipLayerNormFusion", "SwiGluFusion"),
    }
)


# They leave a Relu out in front of a zero point of 0, reject a Clip there, and round a bias to integers.
OF_INTEGERS = frozenset({"ClipQuantRewrite", "ReluQuantRewrite", "WeightBiasQuantization"})
FLOAT8 = (onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E5M2)


class Bits(StrEnum):
    """The meaning of a layer between DequantizeLinear and QuantizeLinear: an integer layer wherever a kernel has one,
    or whatever ONNX Runtime computes on this processor, bit for bit."""

    INTEGERS = "integers"
    ONNXRUNTIME = "onnxruntime"

    @property
    def without(self) -> frozenset[str]:
        """Return the optimizers of ONNX Runtime that are left out: they join float layers to ops of its own, and
        expressions join more of them."""
        return OWN_FUSIONS if self is Bits.INTEGERS else frozenset()

    def without_in(self, graph: onnx.GraphProto) -> frozenset[str]:
        """Return those that are left out for a model. Some take 8-bit floats for integers."""
        return self.without | OF_INTEGERS if self is Bits.INTEGERS and _has_float8(graph) else self.without


def _has_float8(graph: onnx.GraphProto) -> bool:
    """True where a constant, such as a zero point, or the output of a QuantizeLinear is of 8-bit floats."""
    attributes = [each for node in graph.node for each in node.attribute]
    types = [each.i for each in attributes if each.name == "output_dtype"]
    types += [each.t.data_type for each in attributes if each.type == each.TENSOR]
    return any(each in FLOAT8 for each in (*types, *(each.data_type for each in graph.initializer)))


def _bits(given: str | None) -> Bits:
    try:
        return Bits.INTEGERS if given is None else Bits(given)
    except ValueError:
        raise ValueError(f"bits={quoted(given)} is not one of {', '.join(repr(one.value) for one in Bits)}") from None


class Floats(StrEnum):
    """The type in which float convolutions and matrix products with constant weights multiply. float32 is the
    expressions' fp32, whose sums have a stated order; the others are the types of kernels on tensor cores."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class Meaning:
    """The meaning of a model's layers. Float layers that are named in `keep` multiply float32."""

    bits: Bits = Bits.INTEGERS
    floats: Floats = Floats.FLOAT32
    keep: frozenset[str] = frozenset()

    @property
    def narrow(self) -> str | None:
        """Return the type of 16 bits in which floats are multiplied, or None for float32."""
        return None if self.floats is Floats.FLOAT32 else self.floats.value


def meaning(bits: str | None = None, floats: str | None = None, keep: Collection[str] | None = None) -> Meaning:
    """Return the meaning of these arguments, None for the default of each."""
    try:
        kind = Floats.FLOAT32 if floats is None else Floats(floats)
    except ValueError:
        named = ", ".join(repr(one.value) for one in Floats)
        raise ValueError(f"floats={quoted(floats)} is not one of {named}") from None
    if isinstance(keep, str) or not isinstance(keep, Collection | None):
        raise ValueError(f"keep={quoted(keep)} must be a set of names of layers: write {{{quoted(keep)}}}")
    if not all(isinstance(name, str) for name in keep or ()):
        raise ValueError(f"keep={quoted(keep)} must have the names of layers, which are strings")
    if keep and kind is Floats.FLOAT32:
        raise ValueError("keep names layers that stay float32, and floats='float32' keeps all: leave it out")
    made = Meaning(_bits(bits), kind, frozenset(keep or ()))
    if made.narrow is not None and made.bits is not Bits.INTEGERS:
        raise ValueError(f"floats={kind.value!r} with bits={made.bits.value!r}: floats run in ONNX Runtime there")
    return made


def check_kept(keep: Collection[str], network: Network) -> None:
    """Reject names that no layer has."""
    names = {layer.name: layer.op for layer in network.layers}
    for name in sorted(set(keep) - names.keys()):
        near = _meant(name, names)
        raise ValueError(f"keep has {name!r}, the name of no layer{near}: explain() lists the names")


def settings(config: Mapping[str, str] | None, bits: Bits) -> dict[str, str]:
    """Return ONNX Runtime's session settings as a dictionary. Those given override what follows from `bits`."""
    if config is not None and not isinstance(config, Mapping):
        raise ValueError(f"config={quoted(config)} must be a mapping of ONNX Runtime's settings, of names to strings")
    given = dict(config or {})
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError(
                f"config={{{quoted(name)}: {quoted(value)}}}: names and values of ONNX Runtime's settings are strings; "
                f"write {{{str(name)!r}: {str(value)!r}}}"
            )
    return ({INT8_ALLOWED: "1"} if bits is Bits.INTEGERS else {}) | given


def providers(given: Sequence[Any] | None, spec: str) -> list[Any]:
    """Return the given execution providers, each a name or a name and its options. By default, CUDA's if the kernels
    run there and ONNX Runtime has it."""
    there = onnxruntime.get_available_providers()
    if not given:
        wanted = ["CUDAExecutionProvider"] if spec.startswith("cuda") else []
        return [name for name in (*wanted, "CPUExecutionProvider") if name in there]
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"providers={quoted(given)} must be a list of names: write [{quoted(given)}]")
    for one in given:
        name = one[0] if isinstance(one, tuple) and one else one
        if name not in there:
            raise ValueError(
                f"providers has {quoted(name)}, which onnxruntime {onnxruntime.__version__} does not have as it is "
                f"installed: take one of {', '.join(there)}"
            )
    return list(given)


def choices(sums: bool | None, fused: bool | None, tables: bool | None, pools: bool | None) -> Choices:
    named = {
        "sums_in_convolutions": sums,
        "fused_convolutions": fused,
        "tables_in_convolutions": tables,
        "pools_in_convolutions": pools,
    }
    for name, value in named.items():
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{name}={quoted(value)} must be True, False, or None, which decides for each place")
    return Choices(sums, fused, tables, pools)


def outputs(given: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the names of the outputs that are asked for: all of them for None or an empty list."""
    if given is not None and (isinstance(given, str | bytes) or not isinstance(given, Iterable)):
        raise ValueError(
            f"output_names={quoted(given)} must be a list of names, or None for all: write [{quoted(given)}]"
        )
    for name in given or ():
        if name not in known:
            raise ValueError(f"the output {name!r} is not known; the model gives {', '.join(known)}")
    return list(given or known)


def checked_feeds(feeds: object, needed: Sequence[str], taken: Collection[str]) -> Mapping[str, Any]:
    """Return the arrays by the names of inputs."""
    if isinstance(feeds, list | tuple):
        feeds = feeds_of(feeds, {}, needed)
    if not isinstance(feeds, Mapping):
        raise ValueError(
            f"feeds are arrays by the names of inputs, or a list of arrays; {type(feeds).__name__} was given: write "
            f"{{{next(iter(needed), 'x')!r}: array}} or [array]"
        )
    check_inputs(feeds, needed, taken)
    return feeds


def feeds_of(arrays: Sequence[Any], named: Mapping[str, Any], needed: Sequence[str]) -> dict[str, Any]:
    """Return arrays by the names of inputs, of those given in order and those given by name."""
    if len(arrays) > len(needed):
        takes = ", ".join(needed) or "none"
        raise ValueError(f"{len(arrays)} arrays were given; the model takes {takes}: leave some out")
    feeds = dict(zip(needed, arrays, strict=False))
    if twice := [name for name in feeds if name in named]:
        raise ValueError(f"the input {twice[0]!r} was given twice, in order and by name: leave one out")
    return feeds | dict(named)


def check_inputs(given: Collection[str], needed: Sequence[str], taken: Collection[str]) -> None:
    """Reject unknown and missing inputs together: a misspelled name causes one of each."""
    unknown = [f"{name!r} is not known{_meant(name, taken)}" for name in given if name not in taken]
    missing = [f"{name!r} was not given" for name in needed if name not in given]
    if unknown or missing:
        raise ValueError(f"the input {', '.join((*unknown, *missing))}; the model takes {', '.join(taken)}")


def _meant(name: str, taken: Collection[str]) -> str:
    near = get_close_matches(str(name), taken, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def check_strict(strict: object) -> None:
    if not isinstance(strict, bool):
        raise ValueError(f"strict={quoted(strict)} must be True or False")


def shape(name: str, given: Sequence[int], declared: Tensor) -> tuple[int, ...]:
    """Return the shape of an input for which a session is prepared."""
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not all(isinstance(extent, int) and extent >= 0 for extent in given):
        raise ValueError(f"the shape of the input {name!r} is {quoted(given)}; give a tuple of extents, such as (1, 3)")
    if not declared.may_be(given):
        shown = ", ".join("?" if extent is None else str(extent) for extent in declared.shape or ())
        raise ValueError(f"the input {name!r} cannot have the shape {tuple(given)}; the model takes ({shown})")
    return tuple(given)
