"""Errors of ptxas that are visible in the disassembly of a kernel."""

from __future__ import annotations

import re
import subprocess
import tempfile
from functools import lru_cache
from importlib.metadata import files
from pathlib import Path

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\S+)\s*(.*?)\s*(?:;|\(\*|$)")
REGISTER = re.compile(r"\bR(\d+)\b")
ADDRESS = re.compile(r"\[(.*?)\]")
REACHES_MEMORY = ("LDG", "STG", "LDS", "STS", "ATOM", "RED", "CCTL")


@lru_cache(maxsize=1)
def nvdisasm() -> Path:
    (found,) = (file for file in files("nvidia-cuda-nvdisasm") or () if file.name == "nvdisasm")
    return Path(str(found.locate()))


def disassembled(cubin: bytes, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin + bytes(1))  # NVRTC's cubin is one byte too short for nvdisasm
        file.flush()
        return subprocess.run(
            [nvdisasm(), "-c", *options, file.name], capture_output=True, text=True, check=True
        ).stdout


def unset_addresses(cubin: bytes) -> list[str]:
    """List loads and stores whose address register no earlier instruction of the kernel has set. In some loops with an
    exit in the middle, ptxas 13.0 moves a load before the computation of its address, so that it reads address 0."""
    wrong, written = [], set[str]()
    # Without branch analysis (-ndf), nvdisasm takes a quarter of the time.
    for line in disassembled(cubin, "-ndf").splitlines():
        if line.startswith(".text."):
            written = set()
        if (found := INSTRUCTION.search(line)) is None:
            continue
        operation, operands = found.groups()
        if operation.startswith(REACHES_MEMORY):
            used = {register for address in ADDRESS.findall(operands) for register in REGISTER.findall(address)}
            if used - written:
                wrong.append(line.strip())
        # Registers that an instruction reads must have been written. Of several destination registers the first is
        # named.
        named = [int(register) for register in REGISTER.findall(ADDRESS.sub("", operands))]
        written |= {str(register) for register in named}
        written |= {str(register) for first in named[:1] for register in range(first, first + _written_by(operation))}
    return wrong


def _written_by(operation: str) -> int:
    if "GMMA" in operation:
        return 128
    if "128" in operation or "MMA" in operation or operation.endswith(".4"):
        return 4
    return 2 if "64" in operation or "WIDE" in operation or operation.startswith("CS2R") else 1
