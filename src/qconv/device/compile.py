"""source -> binary. The only place that runs a compiler, always for a named architecture; none of it needs a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from qconv.device import cache, cpu_runtime
from qconv.device.binary import Resources, resources
from qconv.device.cache import Binary
from qconv.errors import CompileError, KernelMissing
from qconv.generator import Plan, Source, render
from qconv.target import Target

# -fmad and -ftz have other defaults in NVRTC and in CuPy: the epilogue's arithmetic must not depend on either.
NVRTC_FLAGS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--ptxas-options=-v")
HIPRTC_FLAGS = ("-O3", "-std=c++17", "-ffp-contract=off")
CLANG_FLAGS = (
    *("-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"),
    *("-O3", "-std=c++17", "-ffp-contract=off"),
)


@dataclass(frozen=True)
class Compiler:
    toolchain: str
    flags: tuple[str, ...]
    suffix: str
    run: Callable[[Source], tuple[bytes, str]]  # the binary and the compiler's log


def build(plan: Plan, toolchain: str | None = None) -> Binary:
    """The plan's kernel from the cache, or else compiled now. With a toolchain named, a build by it is preferred. Of a
    plan in parts, each is built; the binary is the last one's."""
    if plan.parts:
        return [build(part, toolchain) for part in plan.parts][-1]
    source = render(plan)
    found = cache.find(source, plan.target.name, toolchain) or cache.find(source, plan.target.name)
    if found is not None:
        return found
    if os.environ.get("QCONV_NO_COMPILE", "0") not in ("", "0"):
        device = plan.target.name if plan.target.vendor == "cpu" else "cuda"
        raise KernelMissing(
            f"no binary of this kernel for {plan.target.name} is in {cache.cache_root()}, and QCONV_NO_COMPILE forbids "
            f"compiling one; run beforehand, without QCONV_NO_COMPILE:\n"
            f"  qconv-tune lookup '{plan.problem}' --device {device}"
        )
    return compile_source(source, plan.target, tuple(launch.kernel for launch in plan.launches))


def compile_source(source: Source, target: Target, kernels: tuple[str, ...]) -> Binary:
    compiler = compiler_for(target)
    begin = time.perf_counter()
    data, text = compiler.run(source)
    compile_ms = (time.perf_counter() - begin) * 1e3
    needs: dict[str, Resources] = {}
    if target.vendor != "cpu":
        needs = {kernel: resources(data, kernel, text) for kernel in kernels}
    return cache.publish(
        source, target.name, compiler.flags, compiler.suffix, data, compiler.toolchain, compile_ms, needs
    )


@lru_cache(maxsize=64)
def compiler_for(target: Target) -> Compiler:
    if target.vendor == "cpu":
        return _host_compiler()
    if target.vendor == "nvidia":
        return _nvrtc(target.name)
    return _hiprtc(target.name) if _cupy_is_rocm() else _clang(target.name)


def _host_compiler() -> Compiler:
    host = cpu_runtime.find_compiler()

    def run(source: Source) -> tuple[bytes, str]:
        with tempfile.TemporaryDirectory() as folder:
            text, out = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
            text.write_text(source.text)
            return _run([host.path, *cpu_runtime.KERNEL_FLAGS, "-shared", text.name, "-o", out.name], out, source)

    return Compiler(host.name, (*cpu_runtime.KERNEL_FLAGS, "-shared"), ".so", run)


def _nvrtc(arch: str) -> Compiler:
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise CompileError(
            f"compiling for {arch} needs CuPy and NVRTC ({error}); install them: pip install 'qconv-tune[cuda]'"
        ) from None
    return _runtime_compiler("nvrtc", (f"-arch={arch}", *NVRTC_FLAGS), ".cubin", nvrtc.getCUBIN)


def _hiprtc(arch: str) -> Compiler:
    """hipRTC through CuPy's ROCm build, which serves it under NVRTC's names; its code object is what it calls PTX."""
    from cupy.cuda import nvrtc

    return _runtime_compiler("hiprtc", (f"--offload-arch={arch}", *HIPRTC_FLAGS), ".co", nvrtc.getPTX)


def _runtime_compiler(name: str, flags: tuple[str, ...], suffix: str, binary_of: Callable[[Any], bytes]) -> Compiler:
    from cupy.cuda import nvrtc

    def run(source: Source) -> tuple[bytes, str]:
        program = nvrtc.createProgram(source.text, f"kernel{source.suffix}", [], [])
        try:
            nvrtc.compileProgram(program, flags)
            return bytes(binary_of(program)), nvrtc.getProgramLog(program)
        except nvrtc.NVRTCError as error:
            raise CompileError(_explain(nvrtc.getProgramLog(program) or str(error), source)) from None
        finally:
            nvrtc.destroyProgram(program)

    return Compiler(f"{name} {'.'.join(map(str, nvrtc.getVersion()))}", flags, suffix, run)


def _cupy_is_rocm() -> bool:
    try:
        from cupy_backends.cuda.api import runtime
    except (ImportError, OSError):
        return False
    return bool(runtime.is_hip)


def _clang(arch: str) -> Compiler:
    path = os.environ.get("QCONV_CLANG") or next(filter(None, map(shutil.which, ("clang-19", "clang"))), None)
    if path is None:
        raise CompileError(
            f"compiling for {arch} needs clang with lld; install them (Debian: apt-get install clang-19 lld-19) "
            "or set QCONV_CLANG to a clang"
        )
    path = os.path.abspath(path) if os.sep in path else path
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"version (\d+\.\d+\.\d+)", answer.stdout)
    if version is None:
        raise CompileError(f"{path} --version does not answer like clang; set QCONV_CLANG to a clang")
    flags = (*CLANG_FLAGS, f"--offload-arch={arch}")
    probe = subprocess.run(
        [path, *flags, "-S", "-o", os.devnull, "-"], input="", capture_output=True, text=True, check=False
    )
    if probe.returncode != 0:
        raise CompileError(
            f"clang {version.group(1)} does not know {arch}; install a newer one and set QCONV_CLANG to it "
            f"({probe.stderr.strip().splitlines()[0]})"
        )

    def run(source: Source) -> tuple[bytes, str]:
        with tempfile.TemporaryDirectory() as folder:
            text, out = Path(folder, "kernel.hip"), Path(folder, "kernel.co")
            text.write_text(source.text)
            return _run([path, *flags, text.name, "-o", out.name], out, source)

    return Compiler(f"clang {version.group(1)}", flags, ".co", run)


def _run(command: list[str], out: Path, source: Source) -> tuple[bytes, str]:
    # In the folder of its files, so that no message holds a path that is gone when it is read.
    answer = subprocess.run(command, capture_output=True, text=True, cwd=out.parent, check=False)
    if answer.returncode != 0:
        raise CompileError(_explain(answer.stderr, source))
    return out.read_bytes(), answer.stderr


def _explain(text: str, source: Source) -> str:
    """The first error of a compiler's log, with the source line it names."""
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["no message"]
    message = lines[0].strip()
    where = re.search(r"kernel\.\w+[:(](\d+)", message)
    if where is None:
        return message
    number = int(where.group(1))
    return f"{message}\n  {number} | {source.text.splitlines()[number - 1].strip()}"
