"""The text of compiled kernels: PTX from NVRTC, SASS from nvdisasm, and the instructions of AMD GPUs and CPUs from
llvm-objdump."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

from qconv.device import cache, program
from qconv.device.cache import Binary
from qconv.device.compile import compile_source, compiler_ahead, ptx_of
from qconv.errors import CompileError
from qconv.generator import Plan, Source
from qconv.targets.target import Target

Form = Literal["ptx", "sass", "isa"]
# The vendors whose kernels have each form.
VENDORS: dict[Form, tuple[str, ...]] = {"ptx": ("nvidia",), "sass": ("nvidia",), "isa": ("amd", "cpu")}
# The newest first: that of LLVM 19 does not know gfx950.
OBJDUMPS = ("llvm-objdump-22", "llvm-objdump-19", "llvm-objdump")
LIMIT_S = 120.0


def text_of(source: Source, plan: Plan, form: Form) -> str:
    """Return the text of a plan's kernel. Raise ValueError where its target has no such form, and CompileError where a
    compiler or a disassembler is missing."""
    target = plan.target
    if target.vendor not in VENDORS[form]:
        its = ", ".join(name for name, vendors in VENDORS.items() if target.vendor in vendors)
        raise ValueError(f"{form} is not a form of kernels for {target.name}: give {its}, or source")
    if form == "ptx":
        return ptx_of(source, target)
    binary = cache.find(source, target.name) or compile_source(
        source, target, tuple(launch.kernel for launch in plan.launches), compiler=compiler_ahead(target)
    )
    return _disassembled(binary, target)


def _disassembled(binary: Binary, target: Target) -> str:
    command = [_nvdisasm(), "-c"] if target.vendor == "nvidia" else [_objdump(), "-d", "--no-show-raw-insn"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, binary.path.name)
        # nvdisasm reads one byte more than NVRTC's cubins have.
        file.write_bytes(binary.data + bytes(target.vendor == "nvidia"))
        answer = program.run([*command, file.name], file.parent, LIMIT_S)
    if answer.returncode != 0:
        raise CompileError(f"{Path(command[0]).name} does not read {binary.path}: {answer.stderr.strip()}")
    return answer.stdout


def _nvdisasm() -> str:
    for path in _nvdisasms():
        if os.access(path, os.X_OK):
            return str(path)
    raise CompileError(
        "SASS needs nvdisasm; install it (pip install nvidia-cuda-nvdisasm), or put the CUDA toolkit's on the PATH"
    )


def _nvdisasms() -> Iterator[Path]:
    """Yield the places of nvdisasm: the PATH, the toolkit, a package of pip."""
    if found := shutil.which("nvdisasm"):
        yield Path(found)
    yield Path(os.environ.get("CUDA_PATH", "/usr/local/cuda"), "bin", "nvdisasm")
    try:
        listed = metadata.files("nvidia-cuda-nvdisasm") or []
    except metadata.PackageNotFoundError:
        return
    yield from (Path(str(file.locate())) for file in listed if file.name == "nvdisasm")


def _objdump() -> str:
    found = next(filter(None, map(shutil.which, OBJDUMPS)), None)
    if found is None:
        raise CompileError("machine code needs llvm-objdump; install it (Debian: apt-get install llvm-22)")
    return found
