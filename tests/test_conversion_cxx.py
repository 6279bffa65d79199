"""The C++ lines against their NumPy lines, bit for bit: compiled for the host, with the CPU device's prelude."""

from __future__ import annotations

import ctypes
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qconv.conversion import INTEGERS, REALS, Choose, Conversion, Dequantize, Quantize, Requantize
from qconv.conversion.choice import choice_real, choice_steps
from qconv.conversion.reference import compute
from qconv.conversion.sample import draw
from qconv.conversion.steps import prepared, steps
from qconv.device.compile import compiler_for
from qconv.device.cpu_runtime import find_compiler
from qconv.dtypes import DATA_TYPES
from qconv.errors import CompileError
from qconv.generator import Source
from qconv.generator.source import _environment
from qconv.target import target

CTYPES = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "float16": "unsigned short",
    "bfloat16": "unsigned short",
    "float32": "float",
    "float64": "double",
}


def body(problem: Any) -> str:
    x, out, scale = (CTYPES[getattr(problem, name)] for name in ("x_type", "out_type", "scale_type"))
    if isinstance(problem, Choose):
        lines = "\n    ".join(step.cxx for step in choice_steps(problem))
        real = choice_real(problem).ctype
        return f"""using Scale = {scale};
extern "C" void NAME(const {real}* ends, Scale* scales, int* zeros, int count) {{
  for (int i = 0; i < count; ++i) {{
    {real} smallest = ends[2 * i], largest = ends[2 * i + 1];
    Scale scale; int zero_point;
    {lines}
    scales[i] = scale; zeros[i] = zero_point;
  }}
}}"""
    names = [tensor.name for tensor in problem.inputs[1:]]
    types = {name: "int" if "zero" in name else scale for name in names}
    arguments = "".join(f"const {types[name]}* {name}s, " for name in names)
    loads = "\n    ".join(f"const {types[name]} {name} = {name}s[i];" for name in names)
    fields = " ".join(f"{entry.ctype} {entry.name};" for entry in prepared(problem))
    fill = "\n    ".join(f"granule.{entry.name} = {entry.cxx};" for entry in prepared(problem))
    lines = "\n    ".join(step.cxx for step in steps(problem))
    return f"""using Output = {out};
struct Granule {{ {fields} }};
extern "C" void NAME(const {x}* xs, {arguments}Output* ys, int count) {{
  for (int i = 0; i < count; ++i) {{
    {loads}
    Granule granule;
    {fill}
    const {x} element = xs[i];
    Output result;
    {lines}
    ys[i] = result;
  }}
}}"""


def problems() -> list[Conversion]:
    """A sample of every flag and type, and each type pair at least once."""
    rng = random.Random(7)
    roundings, added = ("rne", "half_away", "rtz"), ("after_round", "before_round")
    chosen: list[Conversion] = []
    size: dict[str, Any] = {"outer": 1, "channels": 250, "inner": 40}
    for x_type in REALS:
        for out_type in INTEGERS:
            for zero in (False, True):
                chosen.append(
                    Quantize(
                        **size,
                        x_type=x_type,
                        out_type=out_type,
                        zero_point=zero,
                        scale_type=rng.choice(("float32", "float64")),
                        precision=rng.choice(tuple({"float32", "float64", x_type})),
                        quotient=rng.choice(("divide", "reciprocal")),
                        rounding=rng.choice(roundings),
                        zero_point_add=rng.choice(added) if zero else "after_round",
                    )
                )
    for rounding in roundings:
        for add in added:
            chosen.append(Quantize(**size, out_type="int32", zero_point=True, rounding=rounding, zero_point_add=add))
    fused: dict[str, Any] = {"quotient": "reciprocal", "zero_point_add": "before_round", "fma": "on"}
    chosen += [Quantize(**size, **fused, zero_point=True, out_type=out_type) for out_type in INTEGERS]
    for x_type in INTEGERS:
        for out_type in REALS:
            for subtraction in (None, "integer", "real"):
                chosen.append(
                    Dequantize(
                        **size,
                        x_type=x_type,
                        out_type=out_type,
                        zero_point=subtraction is not None,
                        subtraction=subtraction or "integer",
                        scale_type=rng.choice(("float32", "float64")),
                        precision=rng.choice(("float32", "float64")),
                    )
                )
        for out_type in INTEGERS:
            y_zero = rng.random() < 0.6
            chosen.append(
                Requantize(
                    **size,
                    x_type=x_type,
                    out_type=out_type,
                    x_zero_point=rng.random() < 0.6,
                    y_zero_point=y_zero,
                    order=rng.choice(("multiply", "multiply_divide", "multiply_reciprocal")),
                    precision=rng.choice(("float32", "float64")),
                    scale_type=rng.choice(("float32", "float64")),
                    rounding=rng.choice(roundings),
                    zero_point_add=rng.choice(added) if y_zero else "after_round",
                )
            )
    for x_type in REALS:
        for scale_type in ("float32", "float64"):
            for rule in ("torch", "onnx", "fbgemm", "xnnpack"):
                chosen.append(Choose(**size, x_type=x_type, scale_type=scale_type, rule=rule, out_type="uint8"))
            for mapping in ("symmetric", "symmetric_no_clip"):
                chosen.append(Choose(**size, x_type=x_type, scale_type=scale_type, mapping=mapping, out_type="int16"))
    return chosen


PROBLEMS = problems()


def whole(prelude: str, some: list[Conversion]) -> str:
    """One page with a function for each problem, and of the prelude only what their lines say that they want."""
    entries: list[Any] = []
    for problem in some:
        if isinstance(problem, Choose):
            entries += choice_steps(problem)
        else:
            entries += [*prepared(problem), *steps(problem)]  # type: ignore[arg-type]
    wants = {want for entry in entries for want in entry.wants}
    text = _environment().get_template(f"prelude/{prelude}.j2").render(wants=wants)
    for number, problem in enumerate(some):
        text += f"\nnamespace p{number} {{\n{body(problem).replace('NAME', f'f{number}')}\n}}\n"
    return text


@pytest.mark.parametrize("kind", ["quantize", "dequantize", "requantize", "choose"])
def test_cuda_takes_the_lines(kind: str) -> None:
    pytest.importorskip("cupy", reason="cupy, through which NVRTC is called, is not installed")
    text = whole("cuda", [problem for problem in PROBLEMS if problem.op == kind])
    text = text.replace('extern "C" void', 'extern "C" __global__ void')
    try:
        compiler = compiler_for(target("sm_90a"))
    except CompileError as error:
        pytest.skip(str(error))
    binary, _ = compiler.run(Source(text, "0", ".cu"))
    assert binary


@pytest.mark.parametrize("number", range(0, len(PROBLEMS), 6), ids=lambda number: str(PROBLEMS[number]))
def test_each_says_all_that_it_wants(number: int, tmp_path: Path) -> None:
    try:
        compiler = find_compiler()
    except CompileError as error:
        pytest.skip(f"no host compiler: {error}")
    source = tmp_path / "alone.cpp"
    source.write_text(whole("cpu", [PROBLEMS[number]]))
    done = subprocess.run([compiler.path, "-std=c++17", "-fsyntax-only", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    try:
        compiler = find_compiler()
    except CompileError as error:
        pytest.skip(f"no host compiler: {error}")
    text = whole("cpu", PROBLEMS)
    folder = tmp_path_factory.mktemp("conversion")
    source, built = Path(folder, "lines.cpp"), Path(folder, "lines.so")
    source.write_text(text)
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-fsanitize=undefined,float-cast-overflow"]
    flags += ["-fno-sanitize-recover=all", "-Wall", "-Werror=conversion", "-Wno-unused-variable"]
    done = subprocess.run([compiler.path, *flags, source, "-o", built], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(built))


def same(a: Any, b: Any) -> bool:
    """The same bits; any NaN for a NaN."""
    if a.dtype.kind in "iu":
        return bool((a == b).all())
    nan = np.isnan(a)
    raw = f"u{a.dtype.itemsize}"
    return bool((nan == np.isnan(b)).all() and (a.view(raw)[~nan] == b.view(raw)[~nan]).all())


@pytest.mark.parametrize("number", range(len(PROBLEMS)), ids=lambda number: str(PROBLEMS[number]))
def test_the_two_lines_agree(library: ctypes.CDLL, number: int) -> None:
    problem: Any = PROBLEMS[number]
    arrays = draw(problem, number)
    expected = compute(problem, arrays)
    call = getattr(library, f"f{number}")

    def address(array: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    if isinstance(problem, Choose):
        values = arrays[0].astype(choice_real(problem).dtype)
        smallest = np.fmin.reduce(values, axis=(0, 2), initial=np.inf)
        largest = np.fmax.reduce(values, axis=(0, 2), initial=-np.inf)
        ends = np.ascontiguousarray(np.stack([smallest, largest], axis=1))
        scales, zeros = (np.empty(problem.channels, out.dtype) for out in problem.outputs)
        call(address(ends), address(scales), address(zeros), problem.channels)
        assert same(scales, expected[0])
        assert same(zeros, expected[1])
        return
    spread = [np.ascontiguousarray(np.broadcast_to(a.reshape(1, -1, 1), problem.shape)) for a in arrays[1:]]
    y = np.empty(problem.shape, DATA_TYPES[problem.out_type].numpy)
    call(address(arrays[0]), *map(address, spread), address(y), problem.elements)
    assert same(y, expected[0])
