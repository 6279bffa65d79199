"""The node cases of the onnx package in a session: `python tests/support/node_cases.py [AREA ...]` prints how many run
on kernels alone and agree, by area, and why each other one does not.

It counts the cases of the usual ops and types that ONNX Runtime loads. Every input is fed, shapes too, and outputs
agree within the tolerance of the case.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, numpy_helper

from qconv.onnx import Session
from qconv.onnx.model import ORT_ERRORS

AREAS: Mapping[str, tuple[str, ...]] = {
    "elementwise": (
        *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "BitShift"),
        *("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Cos"),
        *("Cosh", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual"),
        *("HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean"),
        *("Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu"),
        *("Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan"),
        *("Tanh", "ThresholdedRelu", "Where", "Xor"),
    ),
    "quantization": ("DequantizeLinear", "QuantizeLinear"),
    "reductions": (
        *("ArgMax", "ArgMin", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LogSoftmax"),
        *("LpNormalization", "RMSNormalization", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"),
        *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Softmax"),
        "MeanVarianceNormalization",
    ),
    "movement": (
        *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
        *("Identity", "Pad", "Reshape", "Slice"),
        *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    ),
    "pools and samples": (
        *("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "GridSample", "LpPool", "MaxPool"),
        *("NonMaxSuppression", "Resize", "TopK", "Upsample"),
    ),
    "products": ("Conv", "ConvInteger", "Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearConv", "QLinearMatMul"),
}
# Ops of functions of several nodes besides.
STRUCTURAL = ("Constant", "ConstantOfShape", "Range", "Shape", "Size")
FUNCTIONS = "functions of several nodes"
OLDER = 23  # an opset that ONNX Runtime implements in whole
MOST_CAUSES, LONGEST = 2, 160  # of a reason
TYPES = frozenset(
    TensorProto.DataType.Value(name)
    for name in (
        *("INT8", "UINT8", "INT16", "UINT16", "INT32", "INT64", "BOOL", "FLOAT16", "FLOAT"),
        *("FLOAT8E4M3FN", "FLOAT8E5M2"),
    )
)
EVERY = (*AREAS, FUNCTIONS)
HEAD = ("| area | node cases | run here and agree | others |", "|---|---|---|---|")
OTHERS = ("| area | other node case | why |", "|---|---|---|")


@dataclass(frozen=True)
class Outcome:
    """A case, and why it does not run here and agree; "" if it does."""

    name: str
    area: str
    why: str


def is_training(model: Any) -> bool:
    """True where a node draws random numbers, or updates what it has learned."""
    return any(node.op_type == "Dropout" and len(node.input) > 2 for node in model.graph.node) or any(
        attribute.name == "training_mode" and attribute.i for node in model.graph.node for attribute in node.attribute
    )


def area_of(model: Any) -> str:
    """Return the area of a case; "" where its ops or types are others."""
    kinds = [value.type for value in (*model.graph.input, *model.graph.output)]
    if not all(kind.HasField("tensor_type") and kind.tensor_type.elem_type in TYPES for kind in kinds):
        return ""
    by_op = {op: area for area, ops in AREAS.items() for op in ops}
    ops = {node.op_type for node in model.graph.node}
    if is_training(model) or any(node.domain for node in model.graph.node) or not ops <= {*by_op, *STRUCTURAL}:
        return ""
    return by_op.get(model.graph.node[0].op_type, "") if len(model.graph.node) == 1 else FUNCTIONS


def loaded(model: Any) -> Any:
    """Return the model as ONNX Runtime loads it: as it is, or with an older opset; None where it loads neither."""
    older = type(model)()
    older.CopyFrom(model)
    for entry in older.opset_import:
        entry.version = min(entry.version, OLDER)
    return next((one for one in (model, older) if is_loaded(one)), None)


def is_loaded(model: Any) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except ORT_ERRORS:
        return False
    return True


@lru_cache(maxsize=1)
def every_case() -> tuple[Any, ...]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = {case.name: case for case in collect_testcases(None) if case.model}
    return tuple(named.values())


def cases(area: str) -> list[Any]:
    """Return the cases of an area that ONNX Runtime loads."""
    models = ((case, loaded(case.model)) for case in every_case() if area_of(case.model) == area)
    return [replace(case, model=model) for case, model in models if model is not None]


def outcome(case: Any, area: str, device: str) -> Outcome:
    try:
        session = Session(case.model, device)
        for inputs, outputs in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            made = session.run(None, dict(zip(names, map(_array, inputs), strict=True)))
            for got, want in zip(made, map(_array, outputs), strict=True):
                if said := _difference(got, want, case):
                    return Outcome(case.name, area, said)
    except Exception as error:  # a crash is counted, and named by its kind
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return Outcome(case.name, area, _short(f"{kind}{error}"))
    explanation = session.explain()
    causes = explanation.causes or ((explanation.advice,) if explanation.fallen_back else ())
    return Outcome(case.name, area, _short("; ".join(map(str, causes[:MOST_CAUSES]))))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _array(given: Any) -> Any:
    return numpy_helper.to_array(given) if isinstance(given, TensorProto) else np.asarray(given)


def _difference(got: Any, want: Any, case: Any) -> str:
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"it is {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if want.dtype.kind not in "fV":  # an 8-bit float may be of V
        count = int((got != want).sum())
        return f"{count} of {want.size} elements differ" if count else ""
    got, want = got.astype(np.float64), want.astype(np.float64)
    if np.allclose(got, want, case.rtol, case.atol, equal_nan=True):
        return ""
    return f"it differs by up to {np.nanmax(np.abs(got - want)):.2g}"


def outcomes(area: str, device: str = "cpu") -> list[Outcome]:
    return [outcome(case, area, device) for case in cases(area)]


def row_of(area: str, found: Sequence[Outcome]) -> str:
    here = sum(not one.why for one in found)
    return f"| {area} | {len(found)} | {here} | {len(found) - here} |"


def others(found: Sequence[Outcome]) -> Iterator[str]:
    """Yield a row per case that does not run here."""
    for one in found:
        if one.why:
            yield f"| {one.area} | {one.name} | {one.why.replace('|', '/')} |"


def main(areas: Sequence[str]) -> None:
    found = {area: outcomes(area) for area in areas or EVERY}
    every = [one for each in found.values() for one in each]
    rows = [row_of(area, each) for area, each in found.items()]
    print("\n".join([*HEAD, *rows, row_of("all", every), "", *OTHERS, *others(every)]))


if __name__ == "__main__":
    main(sys.argv[1:])
