"""Compilation of a source to a binary. Only this module runs compilers, always for a named architecture, without a
GPU."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from qconv.device import array_kernels, cache, cpu_runtime, folders, program
from qconv.device.binary import Resources, resources
from qconv.device.cache import Binary
from qconv.errors import CompileError, KernelMissing, first_line
from qconv.generator import Plan, Source
from qconv.targets.target import Target

# NVRTC and CuPy have different defaults for -fmad and -ftz, on which the epilogue's arithmetic must not depend.
NVRTC_FLAGS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--ptxas-options=-v")
HOST_FLAGS: tuple[str, ...] = (*cpu_runtime.KERNEL_FLAGS, *cpu_runtime.SHARED_FLAGS)
HIPRTC_FLAGS = ("-O3", "-std=c++17", "-ffp-contract=off")
CLANG_FLAGS = (
    *("-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"),
    *("-O3", "-std=c++17", "-ffp-contract=off"),
)


class Run(Protocol):
    def __call__(self, source: Source, limit_s: float | None = None) -> tuple[bytes, str]:
        """Return the binary and the compiler's log. `limit_s` applies to compilers that are programs, not to
        libraries."""
        ...


@dataclass(frozen=True)
class Compiler:
    toolchain: str
    flags: tuple[str, ...]
    suffix: str
    run: Run


def build(source: Source, plan: Plan, toolchain: str | None = None, limit_s: float | None = None) -> Binary:
    """Return the plan's kernel from the cache, or compile it. A build by the named toolchain is preferred. A plan in
    parts has several sources: build those of `plan.kernels`."""
    found = cache.find(source, plan.target.name, toolchain) or cache.find(source, plan.target.name)
    if found is not None:
        return found
    if program.is_forbidden():
        device = plan.target.name if plan.target.vendor == "cpu" else "cuda"
        raise KernelMissing(
            f"no binary of this kernel ({plan.config}) for {plan.target.name} is in {folders.described()}, and "
            f"QCONV_NO_COMPILE forbids compiling one; run beforehand, without QCONV_NO_COMPILE:\n"
            f"  qconv-tune lookup '{plan.problem}' --device {device}\n"
            f"or, where the device is not:\n"
            f"  qconv-tune build --target {plan.target.name} --device NAME '{plan.problem}'"
        )
    return compile_source(source, plan.target, tuple(launch.kernel for launch in plan.launches), limit_s)


def build_array_kernels(target: Target, ahead: bool = False) -> Binary:
    """Return the kernels that move and compare a GPU's arrays, from the cache or compiled. `ahead`: the GPU need not be
    present."""
    source = array_kernels.source_of(target)
    if (found := cache.find(source, target.name)) is not None:
        return found
    if program.is_forbidden():
        raise KernelMissing(
            f"the kernels that move arrays on {target.name} are not in {folders.described()}, and QCONV_NO_COMPILE "
            f"forbids compiling them; run beforehand, without QCONV_NO_COMPILE: qconv-tune build --target {target.name}"
        )
    compiler = compiler_ahead(target) if ahead else compiler_for(target)
    return compile_source(source, target, array_kernels.NAMES, compiler=compiler)


def compile_source(
    source: Source,
    target: Target,
    kernels: tuple[str, ...],
    limit_s: float | None = None,
    compiler: Compiler | None = None,
) -> Binary:
    """Compile with the target's own compiler, unless another is given."""
    compiler = compiler or compiler_for(target)
    begin = time.perf_counter()
    data, text = compiler.run(source, limit_s)
    compile_ms = (time.perf_counter() - begin) * 1e3
    needs: dict[str, Resources] = {}
    if target.vendor != "cpu":
        needs = {kernel: resources(data, kernel, text) for kernel in kernels}
    return cache.publish(
        source, target.name, compiler.flags, compiler.suffix, data, compiler.toolchain, compile_ms, needs
    )


def command_for(target: Target, file: str) -> list[str]:
    """Return a command that compiles an exported source with commonly installed programs, to the same binary as
    here."""
    stem = Path(file).stem
    if target.vendor == "cpu":
        return ["g++", *cpu_runtime.KERNEL_FLAGS, "-shared", file, "-o", f"{stem}.so"]
    if target.vendor == "nvidia":
        return ["nvcc", "-cubin", f"-arch={target.name}", *NVRTC_FLAGS, file, "-o", f"{stem}.cubin"]
    return ["clang++", *CLANG_FLAGS, f"--offload-arch={target.name}", file, "-o", f"{stem}.co"]


@lru_cache(maxsize=64)
def compiler_for(target: Target) -> Compiler:
    if target.vendor == "cpu":
        return _host_compiler()
    if target.vendor == "nvidia":
        return _nvrtc(target.name)
    return _hiprtc(target.name) if _cupy_is_rocm() else _clang(target.name)


@lru_cache(maxsize=64)
def compiler_ahead(target: Target) -> Compiler:
    """Return a compiler of binaries for other machines. Where NVRTC is missing, it is the toolkit's nvcc."""
    try:
        return compiler_for(target)
    except CompileError as missing:
        path = shutil.which("nvcc") if target.vendor == "nvidia" else None
        if path is None:
            raise
        answer = program.run([path, "--version"], limit_s=program.PROBE_S)
        version = re.search(r"V(\d+\.\d+\.\d+)", answer.stdout)
        if version is None:
            raise missing from None
        flags = ("-cubin", f"-arch={target.name}", *NVRTC_FLAGS)
        return _program(path, f"nvcc {version.group(1)}", flags, ".cubin")


def _host_compiler() -> Compiler:
    host = cpu_runtime.find_compiler()
    return _program(host.path, host.name, HOST_FLAGS, ".so")


# The first call loads NVRTC and the libraries that it opens by name; a second thread must not compile meanwhile.
_loading = Lock()


def ptx_of(source: Source, target: Target) -> str:
    """Return the PTX that NVRTC makes of a source on the way to its binary."""
    data, _ = _nvrtc(target.name, ".ptx").run(source)
    return data.decode().rstrip("\0")


def _nvrtc(arch: str, suffix: str = ".cubin") -> Compiler:
    try:
        with _loading:
            from cupy.cuda import nvrtc

            nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise CompileError(
            f"compiling for {arch} needs CuPy and NVRTC ({first_line(error)}); install them: pip install "
            "'qconv-tune[cuda]'"
        ) from None
    binary_of = nvrtc.getPTX if suffix == ".ptx" else nvrtc.getCUBIN
    return _runtime_compiler("nvrtc", (f"-arch={arch}", *NVRTC_FLAGS), suffix, binary_of)


def _hiprtc(arch: str) -> Compiler:
    """Return hipRTC from CuPy's ROCm build, which exposes it under NVRTC's names; the "PTX" is a code object."""
    from cupy.cuda import nvrtc

    return _runtime_compiler("hiprtc", (f"--offload-arch={arch}", *HIPRTC_FLAGS), ".co", nvrtc.getPTX)


def _runtime_compiler(name: str, flags: tuple[str, ...], suffix: str, binary_of: Callable[[Any], bytes]) -> Compiler:
    from cupy.cuda import nvrtc

    def run(source: Source, limit_s: float | None = None) -> tuple[bytes, str]:
        compiling = nvrtc.createProgram(source.text, f"kernel{source.suffix}", [], [])
        try:
            nvrtc.compileProgram(compiling, flags)
            return bytes(binary_of(compiling)), nvrtc.getProgramLog(compiling)
        except nvrtc.NVRTCError as error:
            raise CompileError(_explain(nvrtc.getProgramLog(compiling) or str(error), source)) from None
        finally:
            nvrtc.destroyProgram(compiling)

    return Compiler(f"{name} {'.'.join(map(str, nvrtc.getVersion()))}", flags, suffix, run)


def _cupy_is_rocm() -> bool:
    try:
        from cupy_backends.cuda.api import runtime
    except (ImportError, OSError):
        return False
    return bool(runtime.is_hip)


# In order of preference: the tests read what clang 19 makes, and clang 22 knows gfx950 as well.
CLANGS = ("clang-19", "clang-22", "clang")


@dataclass(frozen=True)
class Clang:
    path: str
    version: str

    def why_not(self, arch: str) -> str | None:
        """Return the first line of what it says of an architecture that it does not know."""
        command = [self.path, *CLANG_FLAGS, f"--offload-arch={arch}", "-S", "-o", os.devnull, "-"]
        probe = program.run(command, limit_s=program.PROBE_S)
        said = probe.stderr.strip().splitlines() or ["it does not say why"]
        return None if probe.returncode == 0 else said[0]


def find_clang(arch: str) -> Clang:
    """Return the first clang that compiles for the architecture: QCONV_CLANG, or one of CLANGS."""
    named = os.environ.get("QCONV_CLANG")
    paths = [named] if named else list(filter(None, map(shutil.which, CLANGS)))
    if not paths:
        raise CompileError(
            f"compiling for {arch} needs clang with lld; install them (Debian: apt-get install clang-19 lld-19) "
            "or set QCONV_CLANG to a clang"
        )
    refused: list[str] = []
    for path in paths:
        if shutil.which(path) is None:
            raise CompileError(f"QCONV_CLANG is {named!r}, which is not an executable; set it to a clang, or unset it")
        clang = _clang_at(os.path.abspath(path) if os.sep in path else path)
        if (why := clang.why_not(arch)) is None:
            return clang
        refused.append(f"clang {clang.version} does not know {arch} ({why})")
    raise CompileError(
        f"{refused[-1]}; install a newer one (Debian: apt-get install clang-22 lld-22), or set QCONV_CLANG to one"
    )


def _clang_at(path: str) -> Clang:
    answer = program.run([path, "--version"], limit_s=program.PROBE_S)
    version = re.search(r"version (\d+\.\d+\.\d+)", answer.stdout)
    if version is None:
        raise CompileError(f"{path} --version does not answer like clang; set QCONV_CLANG to a clang")
    return Clang(path, version.group(1))


def _clang(arch: str) -> Compiler:
    clang = find_clang(arch)
    return _program(clang.path, f"clang {clang.version}", (*CLANG_FLAGS, f"--offload-arch={arch}"), ".co")


def _program(path: str, toolchain: str, flags: tuple[str, ...], suffix: str) -> Compiler:
    """Return a compiler that reads one file and writes another."""

    def run(source: Source, limit_s: float | None = None) -> tuple[bytes, str]:
        with tempfile.TemporaryDirectory() as folder:
            text, out = Path(folder, f"kernel{source.suffix}"), Path(folder, f"kernel{suffix}")
            text.write_text(source.text)
            return _run([path, *flags, text.name, "-o", out.name], out, source, limit_s)

    return Compiler(toolchain, flags, suffix, run)


def _run(command: list[str], out: Path, source: Source, limit_s: float | None) -> tuple[bytes, str]:
    # Run in the folder of the files, so that messages have no path of a folder that is deleted by then.
    answer = program.run(command, out.parent, limit_s)
    if answer.returncode != 0:
        raise CompileError(_explain(answer.stderr, source))
    if not out.exists():
        raise CompileError(program.wrote_nothing(command[0]))
    return out.read_bytes(), answer.stderr


def _explain(text: str, source: Source) -> str:
    """Return the first error of a compiler's log, with the source line that it refers to."""
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["no message"]
    message = lines[0].strip()
    where = re.search(r"kernel\.\w+[:(](\d+)", message)
    if where is None:
        return message
    number = int(where.group(1))
    return f"{message}\n  {number} | {source.text.splitlines()[number - 1].strip()}"
