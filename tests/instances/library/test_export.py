"""Exported sources compile alone for their tuned targets, and several link into one program."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from altered_plan import altered, with_scratch

from qconv import Conv2d, FusedBlock, FusedConv2d, Quantization, generator
from qconv.device import cpu_runtime
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Plan, Source
from qconv.generator.plan import Field
from qconv.generator.tensor_map import PixelBox, TensorMap, im2col, matrix
from qconv.instances.library.export import HEADER, Exported, export
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement

PROBLEMS = (
    Conv2d(1, 7, 7, 16, 24, 3, 3, pad=(1, 1, 1, 1), quantization=Quantization(x_zero_point=True, bias="int32")),
    Conv2d(1, 5, 5, 3, 10, 3, 3, quantization=Quantization(out_type="float16", per_channel=True, residual="int8")),
)


def winner(problem: Conv2d, name: str) -> Measurement:
    return row_of(generator.default(problem, target(name)))


def row_of(plan: Plan) -> Measurement:
    return Measurement(
        problem=plan.problem,
        config=plan.config,
        device=f"a {plan.target.name}",
        target=plan.target.name,
        toolchain="any",
        digest=generator.render(plan).digest,
        outcome="correct",
        times_us=(1.0,),
        median_us=1.0,
    )


@pytest.mark.turns
@pytest.mark.parametrize("name", ["sm_75", "sm_90a", "gfx90a", "gfx1100", "cpu"])
def test_every_file_compiles_alone(name: str, tmp_path: Path) -> None:
    try:
        compiler = compiler_for(target(name))
    except CompileError as missing:
        pytest.skip(str(missing))
    for kernel in export([winner(problem, name) for problem in PROBLEMS], tmp_path).kernels:
        text = (tmp_path / kernel.file).read_text()
        binary, _ = compiler.run(Source(text, "", kernel.source.suffix))
        assert kernel.symbol(kernel.plan.main.kernel).encode() in binary


def test_the_header_is_c_and_agrees_with_the_struct(tmp_path: Path) -> None:
    kernels = export([winner(problem, "sm_80") for problem in PROBLEMS], tmp_path).kernels
    lines = [f'#include "{HEADER}"']
    for kernel in kernels:
        size = kernel.plan.argument_bytes
        lines.append(f'_Static_assert(sizeof({kernel.symbol(kernel.plan.main.kernel)}_arguments) == {size}, "size");')
    (tmp_path / "use.c").write_text("\n".join(lines) + "\n")
    cc = shutil.which("gcc") or shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler")
    subprocess.run([cc, "-std=c11", "-Wall", "-Werror", "-c", "use.c"], cwd=tmp_path, check=True)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [entry["file"] for entry in manifest["kernels"]] == [kernel.file for kernel in kernels]
    assert all(entry["measured_on_this_source"] for entry in manifest["kernels"])


def test_it_says_what_to_allocate_and_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = winner(PROBLEMS[0], "sm_90a")
    plan = generator.plan(row.problem, row.config, target("sm_90a"))
    plan = with_scratch(plan, 5)
    monkeypatch.setattr(generator, "plan", lambda *_: plan)
    export([row], tmp_path)
    entry = json.loads((tmp_path / "manifest.json").read_text())["kernels"][0]
    arguments = {argument["name"]: argument for argument in entry["arguments"]}
    assert (arguments["counters"]["role"], arguments["counters"]["bytes"]) == ("scratch", 20)
    assert (arguments["offset"]["role"], arguments["offset"]["bytes"]) == ("workspace", 4 * 24)
    assert "role" not in arguments["x"]
    header = (tmp_path / HEADER).read_text()
    assert "int32_t* counters;  // one a tile; 20 bytes, zero before the first launch" in header


MAPS = {"x_map": im2col(PROBLEMS[0], 16, 64), "w_map": matrix("w", "int8", 24, 144, 8, 128, 128)}


def read_back(entry: dict[str, Any]) -> TensorMap:
    """Return the tensor map as read by a program with only the manifest."""

    def tuples(given: dict[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}

    fields = {name: value for name, value in tuples(entry).items() if name in TensorMap.__dataclass_fields__}
    pixels = entry["pixel_box"]
    return TensorMap(**fields | {"pixel_box": pixels and PixelBox(**tuples(pixels))})


def test_it_says_how_tensor_maps_are_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = winner(PROBLEMS[0], "sm_90a")
    plain = generator.plan(row.problem, row.config, target("sm_90a"))
    maps = [Field(name, "tile::TensorMap", "tensor_map", "tiles", tensor_map=one) for name, one in MAPS.items()]
    plan = altered(plain, fields=(*plain.fields[:1], *maps, *plain.fields[1:]))
    monkeypatch.setattr(generator, "plan", lambda *_: plan)
    [kernel] = export([row], tmp_path).kernels
    arguments = {argument["name"]: argument for argument in entry_of(tmp_path)["arguments"]}
    assert {name: read_back(arguments[name]["tensor_map"]) for name in MAPS} == MAPS
    assert arguments["w_map"]["type"] == "qconv_tensor_map"
    assert [arguments[name]["tensor_map"]["encode"] for name in MAPS] == [
        "cuTensorMapEncodeIm2col",
        "cuTensorMapEncodeTiled",
    ]
    assert arguments["w_map"]["tensor_map"]["CUtensorMapSwizzle"] == 3
    struct = f"{kernel.symbol(plan.main.kernel)}_arguments"
    lines = [f'#include "{HEADER}"', "#include <stddef.h>", f'SAY(sizeof({struct}) == {plan.argument_bytes}, "size");']
    for field, offset in zip(plan.fields, plan.offsets, strict=True):
        lines.append(f'SAY(offsetof({struct}, {field.name}) == {offset}, "{field.name}");')
    for compiler, standard, word in (("gcc", "c11", "_Static_assert"), ("g++", "c++17", "static_assert")):
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler}")
        (tmp_path / "use.c").write_text("\n".join([f"#define SAY {word}", *lines]) + "\n")
        language = ["-x", "c" if compiler == "gcc" else "c++", f"-std={standard}"]
        subprocess.run([compiler, *language, "-Wall", "-Werror", "-c", "use.c"], cwd=tmp_path, check=True)


def test_two_kernels_link_into_one_library(tmp_path: Path) -> None:
    kernels = export([winner(problem, "cpu") for problem in PROBLEMS], tmp_path).kernels
    assert len({kernel.file for kernel in kernels}) == 2
    flags = [*cpu_runtime.KERNEL_FLAGS, "-Wall", "-Werror", "-Wno-unknown-pragmas", "-shared", "-o", "both.so"]
    files = [kernel.file for kernel in kernels]
    subprocess.run([cpu_runtime.find_compiler().path, *flags, *files], cwd=tmp_path, check=True)
    cpu_runtime.runtime_library(tmp_path)
    library = ctypes.CDLL(str(tmp_path / "both.so"))
    assert all(hasattr(library, f"{kernel.symbol('conv2d_simt')}_entry") for kernel in kernels)


def entry_of(folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / "manifest.json").read_text())
    kernel: dict[str, Any] = manifest["kernels"][0]
    return kernel


@pytest.mark.parametrize("name", ["cpu", "gfx90a", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_the_manifest_says_how_to_compile(name: str, tmp_path: Path) -> None:
    export([winner(PROBLEMS[0], name)], tmp_path)
    command = entry_of(tmp_path)["compile"]
    program = shutil.which("clang++-19") if name == "gfx90a" else shutil.which(command[0])
    if program is None:
        pytest.skip(f"no {command[0]}")
    subprocess.run([program, *command[1:]], cwd=tmp_path, check=True)
    assert (tmp_path / command[-1]).stat().st_size > 0
    assert any(flag in command for flag in ("-ffp-contract=off", "--fmad=false"))


@pytest.mark.slow
def test_a_kernel_of_the_cpu_device_loads_with_the_runtime_that_is_exported(tmp_path: Path) -> None:
    """The compiler gets no other flags: everything that is needed is in the folder."""
    [kernel] = export([winner(PROBLEMS[0], "cpu")], tmp_path).kernels
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    subprocess.run(manifest["cpu_runtime"]["compile"], cwd=tmp_path, check=True)
    library = manifest["cpu_runtime"]["compile"][-1]
    command = [*entry_of(tmp_path)["compile"], f"./{library}", "-Wl,--no-undefined"]
    subprocess.run(command, cwd=tmp_path, check=True)
    entry = f"{kernel.symbol('conv2d_fold')}_entry"
    load = f"import ctypes; print(ctypes.CDLL('./{kernel.file[:-4]}.so').{entry})"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", load], cwd=tmp_path, env=environment, check=True)


def test_a_host_compiler_that_contracts_is_told_not_to(tmp_path: Path) -> None:
    """GCC contracts unless told otherwise; clang does so only within a statement, of which these kernels have none."""
    if shutil.which("g++") is None or platform.machine() != "x86_64":
        pytest.skip("no g++ that compiles for x86_64")
    added = Conv2d(1, 3, 3, 4, 4, 1, 1, quantization=Quantization(bias="float32", residual="int8"))
    [kernel] = export([winner(added, "cpu")], tmp_path).kernels
    (tmp_path / "bare.cpp").write_text(kernel.source.text)

    def fused(file: str, contract: str) -> int:
        flags = ["-std=c++17", "-O2", "-mfma", f"-ffp-contract={contract}", "-S", "-o", "out.s"]
        subprocess.run(["g++", *flags, file], cwd=tmp_path, check=True)
        return (tmp_path / "out.s").read_text().count("vfmadd")

    assert fused(kernel.file, "fast") == fused("bare.cpp", "off") < fused("bare.cpp", "fast")


def test_the_header_says_alignment_and_what_shared_memory_needs(tmp_path: Path) -> None:
    problem = Conv2d(8, 14, 14, 256, 256, 3, 3, pad=1)
    plans, _ = generator.space(problem, target("sm_90a"), likely=True)
    large = next(plan for plan in plans if plan.main.smem_bytes > 48 * 1024)
    kernels = export([row_of(large), winner(PROBLEMS[0], "gfx90a")], tmp_path).kernels
    header = (tmp_path / HEADER).read_text()
    assert re.search(r"int8_t\* x;  // .*; aligned to 16 bytes\n", header)
    # Arrays of per-channel values, and workspaces, are read in vectors.
    assert re.search(r"int32_t\* offset;  // .*; aligned to 16 bytes\n", header)
    assert re.search(r"int32_t\* weights;  // .* bytes, .*; aligned to 16 bytes\n", header)
    symbols = {kernel.plan.target.vendor: kernel.symbol(kernel.plan.main.kernel) for kernel in kernels}
    assert f"// {symbols['nvidia']} uses more than 48 KB of shared memory: before its" in header
    assert f"CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {large.main.smem_bytes})." in header
    assert f"// {symbols['amd']} declares its shared memory statically: launch it with 0 bytes" in header


def test_an_older_template_is_said(tmp_path: Path) -> None:
    old = replace(winner(PROBLEMS[0], "sm_80"), digest="0" * 32)
    kernels: tuple[Exported, ...] = export([old], tmp_path).kernels
    assert json.loads((tmp_path / "manifest.json").read_text())["kernels"][0]["measured_on_this_source"] is False
    assert kernels[0].source.digest != old.digest


def test_an_older_template_of_an_unfused_pair_is_said_of_each(tmp_path: Path) -> None:
    pair = FusedConv2d(Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1, groups=8), Conv2d(1, 6, 6, 8, 16, 1, 1))
    row = row_of(generator.unfused_plan(pair, target("cpu")))
    for given in (row, replace(row, digest="0" * 32)):
        export([given], tmp_path)
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        assert [kernel["measured_on_this_source"] for kernel in manifest["kernels"]] == [given is row] * 2


def test_two_of_one_code_have_a_file_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that differ only in comments have the same digest."""
    rows = [winner(problem, "sm_80") for problem in PROBLEMS[:2]]
    render = generator.render
    monkeypatch.setattr(generator, "render", lambda plan: replace(render(plan), digest="d" * 32))
    kernels = export(rows, tmp_path).kernels
    assert len({kernel.suffix for kernel in kernels}) == 2
    assert all((tmp_path / kernel.file).read_text() == kernel.text for kernel in kernels)


def test_nothing_to_export_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no winner to export"):
        export([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_that_are_faster_unfused_are_two_files_and_each_kernel_is_one(tmp_path: Path) -> None:
    first = Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1, groups=8)
    pair = FusedConv2d(first, Conv2d(1, 6, 6, 8, 16, 1, 1))
    unfused = generator.unfused_plan(pair, target("cpu"))
    rows = [row_of(plan) for plan in (unfused, unfused.parts[0])]
    kernels = export(rows, tmp_path).kernels
    assert [str(kernel.row.problem) for kernel in kernels] == [str(first), str(pair.second)]
    assert len({kernel.file for kernel in kernels}) == 2


def test_three_that_are_faster_unfused_are_three_files(tmp_path: Path) -> None:
    expand, project = Conv2d(1, 6, 6, 4, 8, 1, 1), Conv2d(1, 6, 6, 8, 4, 1, 1)
    block = FusedBlock(expand, Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1, groups=8), project)
    kernels = export([row_of(generator.unfused_plan(block, target("cpu")))], tmp_path).kernels
    assert [kernel.row.problem for kernel in kernels] == list(block.layers.values())


def test_the_arguments_of_two_in_one_kernel_are_named_after_each(tmp_path: Path) -> None:
    pair = FusedConv2d(Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1, groups=8), Conv2d(1, 6, 6, 8, 16, 1, 1))
    plan = generator.space(pair, target("sm_80"), likely=False)[0][0]
    export([row_of(plan)], tmp_path)
    entry = json.loads((tmp_path / "manifest.json").read_text())["kernels"][0]
    names = [argument["name"] for argument in entry["arguments"]]
    assert {"first_x", "first_w", "second_w", "second_y"} <= set(names)
    assert len(names) == len(set(names))
