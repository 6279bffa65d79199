"""The compiled form of a source, as lines that are equal for two sources with the same machine code.

A line is an instruction with its registers and, for a GPU, its encoding, which includes ptxas's wait masks. Other lines
list the resources of a GPU's kernels: registers, spills, shared memory, threads, clusters. Details that a rename may
change are left out:

- names of kernels and of the source's own functions, which are numbered, kernels in launch order;
- labels and addresses of instructions; a GPU's branch has its distance in its encoding;
- in the CPU's objects, line numbers and the texts of messages that a failing run prints;
- the offset of kernel code in an AMD code object, which depends on the lengths of names.

Names of functions that a source calls in the CPU runtime are kept, unless `renamed` lists them.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from disassembly import disassembled

from qconv.device import cpu_runtime
from qconv.device.binary import resources
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Source
from qconv.targets.target import Target

NVIDIA = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*/\* (0x[0-9a-f]+) \*/$")
ENCODING = re.compile(r"^\s+/\* (0x[0-9a-f]+) \*/$")
SECTION = re.compile(r"^\.text\.(\S+):")
BANK = re.compile(r"\bc\[0x([1-9a-f][0-9a-f]*)\]")
LABEL = re.compile(r"`?\(?\.L_x_\d+\)?")
EIFMT_SVAL = 4  # in .nv.info: with the stated number of bytes
# Attributes that refer to symbols by number. The number counts all earlier symbols, used or not, so these words are
# skipped.
SYMBOLS = {0x0A: 1, 0x0F: 0x4000}  # EIATTR_PARAM_CBANK, EIATTR_EXTERNS
AMD_KERNEL = re.compile(r"^[0-9a-f]{16} <(\S+)>:")
AMD = re.compile(r"^\t(.*?)\s*// [0-9A-F]{12}: ([0-9A-F ]+?)(?: <.*)?$")
DESCRIPTOR, ENTRY = 64, slice(16, 24)  # of a kernel in .rodata; offset of its code
MESSAGE = re.compile(r"(\.rodata\.\S*str\S*|\.LC\d+)[-+]0x[0-9a-f]+")
# The CPU device reports a line when a kernel fails; this makes all lines equal.
ONE_LINE = "-D__builtin_LINE()=1"


def listing(source: Source, target: Target, kernels: Sequence[str], renamed: Mapping[str, str]) -> list[str]:
    """Return the listing of a source; raise CompileError if there is no compiler for the target."""
    if target.vendor == "cpu":
        return _of_object(_compiled_object(source), kernels, renamed)
    binary, log = compiler_for(target).run(source)
    read = _of_cubin if target.vendor == "nvidia" else _of_code_object
    needs = [f"{number}: {resources(binary, kernel, log)}" for number, kernel in enumerate(kernels)]
    return [*needs, *read(binary, kernels)]


def first_difference(one: Sequence[str], other: Sequence[str]) -> str:
    """Return the first line in which they differ, or ""."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return f"line {at + 1} of {len(one)} and {len(other)}: {a}  ->  {b}"
    return "" if len(one) == len(other) else f"{len(one)} lines  ->  {len(other)} lines"


def _of_cubin(cubin: bytes, kernels: Sequence[str]) -> list[str]:
    code: dict[str, list[str]] = {}
    lines = code.setdefault("", [])
    for line in disassembled(cubin, "-hex").splitlines():
        if section := SECTION.match(line):
            lines = code.setdefault(section[1], [])
        elif instruction := NVIDIA.match(line):
            lines.append(f"{LABEL.sub('label', instruction[1])} {instruction[2]}")
        elif (rest := ENCODING.match(line)) and lines:
            lines[-1] += f" {rest[1]}"
    if strange := sorted(set(code) - {"", *kernels}):
        raise ValueError(f"the cubin has code beside its kernels: {', '.join(strange)}")
    listed = [f"{number}: {line}" for number, kernel in enumerate(kernels) for line in code[kernel]]
    # Every constant that the source names has a slot in the bank, used or not: only slots that code reads count.
    banks = sorted({bank for line in listed for bank in BANK.findall(line)})
    data = _sections(cubin)
    read = [f".nv.constant{int(bank, 16)}" for bank in banks] + [".nv.global.init"] * bool(banks)
    said = [f"{at}: {_attributes(data.get(f'.nv.info.{kernel}', b''))}" for at, kernel in enumerate(kernels)]
    return [*_numbered(listed, kernels), *said, *(f"{name}: {data.get(name, b'').hex()}" for name in read)]


def _attributes(info: bytes) -> dict[str, str]:
    """Return the launch attributes of a kernel, including the cluster size."""
    said, at = {}, 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        long = size if form == EIFMT_SVAL else 0
        value = info[at + 4 : at + 4 + long][4 * SYMBOLS.get(attribute, 0) :]
        said[f"attribute {attribute:#x} at {at}"] = f"{size} {value.hex()}"
        at += 4 + long
    return said


def _of_code_object(code_object: bytes, kernels: Sequence[str]) -> list[str]:
    with tempfile.NamedTemporaryFile(suffix=".co") as file:
        file.write(code_object)
        file.flush()
        text = _run([_tool("llvm-objdump-22", "llvm-objdump-19", "llvm-objdump"), "-d", file.name])
    listed = []
    for line in text.splitlines():
        if found := AMD_KERNEL.match(line):
            listed.append(found[1])
        elif instruction := AMD.match(line):
            listed.append(f"{instruction[1]} {instruction[2]}")
    return [*_numbered(listed, kernels), *_amd_data(code_object)]


def _amd_data(code_object: bytes) -> list[str]:
    """Return the kernel descriptors without their code offsets, and other data that instructions may load."""
    data = _sections(code_object)
    read_only = bytearray(data.get(".rodata", b""))
    if len(read_only) % DESCRIPTOR == 0:
        for begin in range(0, len(read_only), DESCRIPTOR):
            read_only[begin + ENTRY.start : begin + ENTRY.stop] = bytes(8)
    return [f".rodata: {read_only.hex()}", *(f"{name}: {data[name].hex()}" for name in (".data",) if name in data)]


def _compiled_object(source: Source) -> bytes:
    host = cpu_runtime.find_compiler()
    with tempfile.TemporaryDirectory() as folder:
        text, out = Path(folder, "kernel.cpp"), Path(folder, "kernel.o")
        text.write_text(source.text)
        command = [host.path, *cpu_runtime.KERNEL_FLAGS, ONE_LINE, "-c", text.name, "-o", out.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise CompileError(done.stderr[-2000:])
        return out.read_bytes()


def _of_object(built: bytes, kernels: Sequence[str], renamed: Mapping[str, str]) -> list[str]:
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(built)
        file.flush()
        code = _run(["objdump", "-drw", "--no-show-raw-insn", file.name])
        defined = _run(["nm", "--defined-only", file.name])
    own = [line.split()[-1] for line in defined.splitlines()]
    lines = [MESSAGE.sub("message", line) for line in code.splitlines() if "file format" not in line]
    constants = [
        f"{name}: {data.hex()}"
        for name, data in sorted(_sections(built).items())
        if name.startswith((".rodata", ".data")) and ".str" not in name and data
    ]
    entries = [name for kernel in kernels for name in (kernel, f"{kernel}_entry")]
    listed = _numbered([*lines, *constants], entries, own)
    return [_renamed(line, renamed) for line in listed]


def _renamed(line: str, renamed: Mapping[str, str]) -> str:
    return re.sub(r"\bqconv_cpu_\w+", lambda name: renamed.get(name[0], name[0]), line)


def _numbered(lines: Sequence[str], kernels: Sequence[str], own: Sequence[str] = ()) -> list[str]:
    """Number each kernel, and the source's own functions in order of appearance."""
    places = {name: f"kernel{at}" for at, name in enumerate(kernels)}
    spelled = "|".join([r"_Z\w+", *map(re.escape, sorted({*kernels, *own}, key=len, reverse=True))])
    name = re.compile(rf"(?<![\w$.])\$?(?:{spelled})(?![\w$])")

    def place(found: re.Match[str]) -> str:
        return places.setdefault(found[0], f"own{len(places)}")

    return [name.sub(place, line) for line in lines]


def _sections(elf: bytes) -> dict[str, bytes]:
    """Return the content of each non-empty section, by name."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_at = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + size * at) for at in range(count)]
    names = elf[headers[names_at][4] :]
    found: dict[str, bytes] = {}
    for name, kind, _, _, at, length in headers:
        if kind != 8:  # SHT_NOBITS
            found[names[name : names.index(b"\0", name)].decode()] = elf[at : at + length]
    return found


def _tool(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise CompileError(f"no {names[0]} here: install it (Debian: apt-get install llvm-19)")
    return found


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
