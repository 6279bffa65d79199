"""The resources of a compiled kernel, read from its binary: registers, spills, stack, shared memory, threads.

It reads NVIDIA cubins and AMD code objects with the standard library alone: no GPU, no driver, no `cuobjdump`, no
`llvm-readelf`. It executes nothing from the binary; a damaged one raises only `ValueError`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

_NVIDIA, _AMD = 190, 224  # e_machine: EM_CUDA and EM_AMDGPU


@dataclass(frozen=True)
class Resources:
    """The resources of one kernel, independent of its launch. Dynamic shared memory is not included.

    registers    32-bit vector registers per thread (NVIDIA) or per lane (AMD). On AMD it is the allocation with
                 accumulation registers: VGPR + AGPR where they share one file (gfx90a and later), the larger of
                 the two where each has its own (gfx908).
    spill_bytes  bytes per thread moved by spill instructions, each counted once, however often it runs: stores
                 plus loads on NVIDIA, stores only on AMD, whose metadata does not count the loads. None where it
                 is unknown: only the log of ptxas has it, not the cubin.
    stack_bytes  local memory (NVIDIA) or private segment (AMD) in bytes per thread: spill slots, arrays indexed at
                 run time, and the frames of functions that were not inlined.
    smem_bytes   static shared memory (LDS) in bytes per block, as ptxas prints it: without the 1024 bytes that
                 every block reserves from sm_90 on, so that it compares with the target's limit.
    threads_max  the largest number of threads per block that it is compiled for (`__launch_bounds__`), or None.
    """

    registers: int
    spill_bytes: int | None
    stack_bytes: int
    smem_bytes: int
    threads_max: int | None


def resources(binary: bytes, kernel: str, log: str = "") -> Resources:
    """Return the resources of `kernel` (its symbol: mangled, unless `extern "C"`) from a cubin or AMD code object.

    `log` is the compiler's output under `--ptxas-options=-v`. It supplies the `spill_bytes` of a cubin only.
    """
    machine, sections = _read_elf(binary)
    if machine == _NVIDIA:
        return _read_cubin(sections, kernel, log)
    if machine == _AMD:
        return _read_code_object(sections, kernel)
    raise ValueError(
        f"the binary is for ELF machine {machine}: a kernel is for {_NVIDIA} (NVIDIA) or {_AMD} (AMD); "
        "pass what the device compiler made, not the host's"
    )


def _damaged(what: str) -> ValueError:
    return ValueError(f"{what}: the binary is truncated or damaged; compile it again")


def _missing(kernel: str, present: list[str]) -> ValueError:
    return ValueError(f"no kernel {kernel!r} in the binary; it has: {', '.join(sorted(present)) or 'none'}")


# ---- ELF, the container of both vendors' kernels: always 64-bit and little-endian ----


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    size: int  # in memory; a section without bits has a size but no data
    data: bytes


_SYMBOLS, _NOTE, _NO_BITS = 2, 7, 8  # sh_type


def _slice(data: bytes, at: int, size: int, what: str) -> bytes:
    """Return the bytes from `at`. Plain slicing would silently return fewer past the end."""
    if at + size > len(data):
        raise _damaged(f"{what} ends at byte {at + size} of {len(data)}")
    return data[at : at + size]


def _unpack(layout: str, data: bytes, at: int, what: str) -> tuple[int, ...]:
    """Return the little-endian, packed integers at `at`."""
    return struct.unpack("<" + layout, _slice(data, at, struct.calcsize("<" + layout), what))


def _name(table: bytes, at: int) -> str:
    """Return the zero-terminated string at `at`. It is only compared and shown, so invalid UTF-8 is accepted."""
    end = table.find(b"\0", at)
    if end < 0:
        raise _damaged(f"a name at byte {at} of a table of {len(table)} has no end")
    return table[at:end].decode("utf-8", "replace")


def _read_elf(binary: bytes) -> tuple[int, list[_Section]]:
    """Return the machine and the sections."""
    if binary[:4] != b"\x7fELF":
        raise ValueError(
            f"the binary starts with {binary[:16]!r}, not b'\\x7fELF': pass one cubin or one code object, "
            "not source, PTX, a fatbin or an offload bundle (clang makes none with --no-gpu-bundle-output)"
        )
    if binary[4:6] != b"\x02\x01":
        raise _damaged(f"the ELF is {binary[4:6]!r}, not b'\\x02\\x01' (64-bit, little-endian)")
    (machine,) = _unpack("H", binary, 18, "the ELF header")
    (table_at,) = _unpack("Q", binary, 40, "the ELF header")
    entry_size, count, names_index = _unpack("HHH", binary, 58, "the ELF header")
    if entry_size != 64 or names_index >= count:
        raise _damaged(f"{count} section headers of {entry_size} bytes (not 64), named in {names_index}")
    headers = [_unpack("IIQQQQ", binary, table_at + 64 * i, f"section header {i}") for i in range(count)]

    def content(header: tuple[int, ...], what: str) -> bytes:
        _, kind, _, _, at, size = header
        return b"" if kind == _NO_BITS else _slice(binary, at, size, what)

    names = content(headers[names_index], "the table of section names")
    sections = []
    for header in headers[1:]:  # the first is empty by definition
        name = _name(names, header[0])
        sections.append(_Section(name, header[1], header[5], content(header, f"section {name}")))
    return machine, sections


# ---- NVIDIA: attributes in .nv.info (of all functions, by symbol) and in .nv.info.<kernel> ----

# NVIDIA does not document these numbers. They were checked against the output of ptxas from CUDA 12.9 and 13.0 for
# sm_61 to sm_121.
_THREADS_MAX, _THREADS_REQUIRED, _FRAME_SIZE, _STACK_SIZE, _REGISTERS = 0x05, 0x10, 0x11, 0x12, 0x2F
_SIZED = 4  # the form of an attribute followed by bytes; in forms 1 to 3 the entry holds the value
_FUNCTION = 2  # the type of a symbol
_ENTRY = 0x10  # the bit of st_other that distinguishes a kernel from a device function
_RESERVED_SMEM_BYTES = 1024


def _read_cubin(sections: list[_Section], kernel: str, log: str) -> Resources:
    by_name = {section.name: section for section in sections}
    kernels = _cubin_kernels(sections, by_name)
    if kernel not in kernels:
        raise _missing(kernel, list(kernels))

    amounts: dict[int, int] = {}
    for attribute, value in _cubin_attributes(by_name, ".nv.info"):
        if attribute in (_REGISTERS, _FRAME_SIZE, _STACK_SIZE):
            symbol, amount = _unpack("II", value, 0, f"attribute {attribute:#x} of .nv.info")
            if symbol == kernels[kernel]:
                amounts[attribute] = amount
    if _REGISTERS not in amounts:
        raise _damaged(f".nv.info has no register count (attribute {_REGISTERS:#x}) of {kernel!r}")

    threads_max = None
    for attribute, value in _cubin_attributes(by_name, f".nv.info.{kernel}"):
        if attribute in (_THREADS_MAX, _THREADS_REQUIRED):
            threads_max = math.prod(_unpack("III", value, 0, f"attribute {attribute:#x} of {kernel!r}"))

    smem = by_name.get(f".nv.shared.{kernel}")
    smem_bytes = smem.size if smem else 0
    if ".nv.shared.reserved.0" in by_name:  # present from sm_90 on, where sizes include the reserve
        smem_bytes = max(0, smem_bytes - _RESERVED_SMEM_BYTES)

    return Resources(
        registers=amounts[_REGISTERS],
        spill_bytes=_logged_spill_bytes(log, kernel),
        # The frame is the kernel's own. The stack includes the functions that it calls, but is 0 if they recurse.
        stack_bytes=max(amounts.get(_FRAME_SIZE, 0), amounts.get(_STACK_SIZE, 0)),
        smem_bytes=smem_bytes,
        threads_max=threads_max,
    )


def _cubin_kernels(sections: list[_Section], by_name: dict[str, _Section]) -> dict[str, int]:
    """Return each kernel's symbol index."""
    symbols = next((section for section in sections if section.kind == _SYMBOLS), None)
    if symbols is None or ".strtab" not in by_name:
        raise _damaged("the cubin has no symbol table (.symtab and .strtab)")
    kernels = {}
    for index in range(len(symbols.data) // 24):
        name_at, info, other = _unpack("IBB", symbols.data, 24 * index, "a symbol")
        if info & 0xF == _FUNCTION and other & _ENTRY:
            kernels[_name(by_name[".strtab"].data, name_at)] = index
    return kernels


def _cubin_attributes(by_name: dict[str, _Section], section: str) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes of a section that are followed by bytes, with those bytes."""
    if section not in by_name:
        raise _damaged(f"the cubin has no section {section}")
    data = by_name[section].data
    at = 0
    while at < len(data):
        form, attribute, size = _unpack("BBH", data, at, section)
        at += 4
        if not 1 <= form <= _SIZED:
            raise _damaged(f"attribute {attribute:#x} in {section} has form {form}, not 1 to {_SIZED}")
        if form == _SIZED:
            yield attribute, _slice(data, at, size, f"attribute {attribute:#x} in {section}")
            at += size


def _logged_spill_bytes(log: str, kernel: str) -> int | None:
    """Return the spilled bytes, stores plus loads, of a kernel and of the functions it calls, which ptxas lists after
    it."""
    for entry in log.split("Compiling entry function '")[1:]:
        if entry.startswith(f"{kernel}'"):
            counts = re.findall(r"([0-9]{1,18}) bytes spill (?:stores|loads)", entry)
            return sum(map(int, counts)) if counts else None
    return None


# ---- AMD: metadata in a note, as MessagePack ----

_METADATA = 32  # the note's type: NT_AMDGPU_METADATA
_Value: TypeAlias = "bool | int | str | bytes | list[_Value] | dict[str, _Value] | None"

# MessagePack tag: size in bytes (big-endian) of the number, or of the length of bytes, str, list or dict
_NUMBERS = dict(zip(range(0xCC, 0xD4), (1, 2, 4, 8) * 2, strict=True))
_LENGTHS = dict(zip((0xC4, 0xC5, 0xC6, *range(0xD9, 0xE0)), (1, 2, 4, 1, 2, 4, 2, 4, 2, 4), strict=True))
_DEPTH_MAX = 32  # the metadata needs 5; the limit protects Python's stack from damaged data


def _read_code_object(sections: list[_Section], kernel: str) -> Resources:
    metadata, _ = _read_msgpack(_metadata_note(sections), 0)
    entries = metadata.get("amdhsa.kernels") if isinstance(metadata, dict) else None
    if not isinstance(entries, list):
        raise _damaged("the metadata has no list amdhsa.kernels")
    kernels = {str(entry.get(".name")): entry for entry in entries if isinstance(entry, dict)}
    if kernel not in kernels:
        raise _missing(kernel, list(kernels))

    def count(key: str) -> int:
        value = kernels[kernel].get(key)
        if type(value) is not int or value < 0:  # a bool is an int too
            raise _damaged(f"{key} of {kernel!r} is {value!r}, which is no count")
        return value

    return Resources(
        # LLVM's .vgpr_count is the whole allocation; adding .agpr_count would count those registers twice.
        registers=count(".vgpr_count"),
        # Counts spill stores of one register each. A spill into an AGPR is a move and not counted.
        spill_bytes=4 * count(".vgpr_spill_count"),
        stack_bytes=count(".private_segment_fixed_size"),
        smem_bytes=count(".group_segment_fixed_size"),
        threads_max=count(".max_flat_workgroup_size"),
    )


def _metadata_note(sections: list[_Section]) -> bytes:
    for section in sections:
        at = 0
        while section.kind == _NOTE and at < len(section.data):
            name_size, size, kind = _unpack("III", section.data, at, f"a note in {section.name}")
            name = _slice(section.data, at + 12, name_size, f"the name of a note in {section.name}")
            at += 12 + (name_size + 3 & ~3)  # name and content are padded to 4 bytes
            if kind == _METADATA and name == b"AMDGPU\0":
                return _slice(section.data, at, size, "the metadata")
            at += size + 3 & ~3
    raise _damaged(f"no metadata (a note of type {_METADATA} by AMDGPU, code object version 3 or later)")


def _read_msgpack(data: bytes, at: int, depth: int = 0) -> tuple[_Value, int]:
    """Return the value at `at` and the position of the next one. LLVM writes no floats and no extensions."""
    if depth > _DEPTH_MAX:
        raise _damaged(f"the metadata nests deeper than {_DEPTH_MAX}")
    (tag,) = _unpack("B", data, at, "the metadata")
    at += 1
    if tag < 0x80 or tag >= 0xE0:
        return tag if tag < 0x80 else tag - 0x100, at
    if tag in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[tag], at
    size = _NUMBERS.get(tag) or _LENGTHS.get(tag)
    if size:
        number = int.from_bytes(_slice(data, at, size, "the metadata"), "big", signed=0xD0 <= tag <= 0xD3)
        at += size
        if tag in _NUMBERS:
            return number, at
    elif tag < 0xC0:  # short forms of dict, list and str have the length in the tag
        number = tag & (0x0F if tag < 0xA0 else 0x1F)
    else:
        raise _damaged(f"MessagePack tag {tag:#x} at byte {at - 1} of the metadata is not one of LLVM's")

    if tag < 0x90 or tag in (0xDE, 0xDF):
        fields: dict[str, _Value] = {}
        for _ in range(number):
            key, at = _read_msgpack(data, at, depth + 1)
            if not isinstance(key, str):
                raise _damaged(f"a key of the metadata is {key!r}, not a name")
            fields[key], at = _read_msgpack(data, at, depth + 1)
        return fields, at
    if tag < 0xA0 or tag in (0xDC, 0xDD):
        values: list[_Value] = []
        for _ in range(number):
            value, at = _read_msgpack(data, at, depth + 1)
            values.append(value)
        return values, at
    raw = _slice(data, at, number, "the metadata")
    return raw if tag in (0xC4, 0xC5, 0xC6) else raw.decode("utf-8", "replace"), at + number
