"""Export of winners as sources: one self-contained file per kernel, a manifest, a C header with the argument structs,
and for the CPU device its runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qconv import generator
from qconv.device import cpu_runtime, disassembly, tensor_maps
from qconv.device.compile import command_for
from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.generator import Plan, Source
from qconv.generator.plan import Field
from qconv.generator.source import text_digest
from qconv.generator.tensor_map import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TensorMap
from qconv.instances.library.folder import check_free
from qconv.instances.library.folder import replace as replace_folder
from qconv.instances.load.winners import Winner
from qconv.targets.target import target

if TYPE_CHECKING:
    from qconv.tune_db.measurement import Measurement

FORMAT = "qconv-export-1"
HEADER = "qconv_kernels.h"
RUNTIME = "libqconv_cpu.so"
# A kernel with more shared memory per block needs a function attribute, which every program sets itself.
SMEM_WITHOUT_ASKING = 48 * 1024

# A host compiler may contract a product and a sum to an fma, which would change the results.
NO_CONTRACTION = """#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif"""
# CUtensorMap, declared in the header for programs that do not include cuda.h.
TENSOR_MAP = f"""#ifdef __cplusplus
typedef struct alignas({TENSOR_MAP_ALIGNMENT}) {{ uint8_t bytes[{TENSOR_MAP_BYTES}]; }} qconv_tensor_map;
#else
typedef struct {{ _Alignas({TENSOR_MAP_ALIGNMENT}) uint8_t bytes[{TENSOR_MAP_BYTES}]; }} qconv_tensor_map;
#endif"""


@dataclass(frozen=True)
class Exported:
    row: Winner
    plan: Plan
    source: Source

    @property
    def suffix(self) -> str:
        """A digest of the whole text. Problems whose sources differ only in comments have separate files and
        structs."""
        return text_digest(self.source.text)[:8]

    def symbol(self, kernel: str) -> str:
        return f"{kernel}_{self.suffix}"

    @property
    def file(self) -> str:
        return f"{self.symbol(self.plan.main.kernel)}{self.source.suffix}"

    def code_file(self, form: disassembly.Form) -> str:
        return f"{self.symbol(self.plan.main.kernel)}.{form}"

    @property
    def text(self) -> str:
        lines = ["// Exported under unique names, so that several kernels can be linked into one program."]
        for launch in self.plan.launches:
            lines.append(f"#define {launch.kernel} {self.symbol(launch.kernel)}")
            if self.plan.target.vendor == "cpu":
                lines.append(f"#define {launch.kernel}_entry {self.symbol(launch.kernel)}_entry")
        if self.plan.target.vendor == "cpu":
            lines.append(NO_CONTRACTION)
        return "\n".join(lines) + "\n\n" + self.source.text


@dataclass(frozen=True)
class Sources:
    """An export as sources. `files` are names relative to the folder."""

    folder: Path
    kernels: tuple[Exported, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Served:
    """A winner with the kernels that are launched for it, in order."""

    winner: Winner
    plan: Plan
    kernels: tuple[Exported, ...]


def served(row: Winner | Measurement) -> Served:
    """Plan a winner and render its kernels. Raises ValueError where its config is no longer valid."""
    winner = row if isinstance(row, Winner) else Winner.of(row)
    try:
        plan = generator.plan(winner.problem, winner.config, target(winner.target))
    except Infeasible as refused:
        raise ValueError(
            f"the winner of {winner.problem} is not feasible any more ({refused}): tune it again"
        ) from None
    # Each kernel of an unfused chain is a file, unless it is exported already as the winner of its own problem.
    is_of_today = generator.render(plan).digest == winner.digest
    kernels = []
    for part in plan.kernels:
        source = generator.render(part)
        digest = source.digest if is_of_today else winner.digest
        one = replace(winner, problem=part.problem, config=part.config, digest=digest) if plan.parts else winner
        kernels.append(Exported(one, part, source))
    return Served(winner, plan, tuple(kernels))


def ordered(rows: Iterable[Winner | Measurement]) -> list[Served]:
    """Sort the winners by device and key, with those of several kernels last. Raises ValueError where there are
    none."""
    found = [served(row) for row in rows]
    if not found:
        raise ValueError("the database has no winner to export: run qconv-tune tune first")
    return sorted(found, key=lambda one: (bool(one.plan.parts), one.winner.device, str(one.winner.problem)))


def export(
    rows: Iterable[Winner | Measurement],
    folder: Path,
    code: disassembly.Form | None = None,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Sources:
    """Write the winners, and with `code` the text of each compiled kernel beside its source. Raises ValueError where
    there are none, where the target of one has no such code, or where the folder holds anything but an older export,
    which is replaced. `watch` receives the number of compiled kernels and the total."""
    check_free(folder)
    kernels: dict[tuple[str, str], Exported] = {}
    for one in ordered(rows):
        for kernel in one.kernels:
            kernels.setdefault((one.winner.device, text_digest(kernel.source.text)), kernel)
    found = tuple(kernels.values())
    files: dict[str, str | bytes] = {kernel.file: kernel.text for kernel in found}
    if code is not None:
        for done, kernel in enumerate(found, 1):
            files[kernel.code_file(code)] = disassembly.text_of(kernel.source, kernel.plan, code)
            watch(done, len(found))
    files[HEADER] = _header(found)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "header": HEADER,
        "kernels": [_entry(kernel, code) for kernel in found],
    }
    if any(kernel.plan.target.vendor == "cpu" for kernel in found):
        runtime = cpu_runtime.runtime_sources()  # kernels are linked with it; `qconv_cpu_launch` launches them
        files |= runtime
        command = ["g++", *cpu_runtime.RUNTIME_FLAGS, "-shared", next(iter(runtime)), "-o", RUNTIME]
        manifest["cpu_runtime"] = {"files": list(runtime), "compile": command}
    return Sources(folder, found, replace_folder(folder, files, manifest))


def _entry(kernel: Exported, code: disassembly.Form | None) -> dict[str, Any]:
    row, plan = kernel.row, kernel.plan
    return {
        "file": kernel.file,
        **({} if code is None else {"code": kernel.code_file(code)}),
        "problem": str(row.problem),
        "config": row.config.as_dict(),
        "origin": row.origin,
        "device": row.device,
        "target": row.target,
        "toolchain": row.toolchain,
        "time_us": row.median_us,
        "measured_on_this_source": row.digest == kernel.source.digest,
        "digest": kernel.source.digest,
        "compile": command_for(plan.target, kernel.file),
        "launches": [
            {
                "kernel": kernel.symbol(launch.kernel),
                "grid": launch.grid,
                "threads": launch.threads,
                "smem_bytes": launch.smem_bytes,
                "when": launch.when,
            }
            for launch in plan.launches
        ],
        "arguments": [_argument(plan, field) for field in plan.fields],
        "alignment": plan.alignment,
    }


def _argument(plan: Plan, field: Field) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": _c_name(field), "type": _c_type(plan, field), "says": field.says}
    if field.tensor_map is not None:
        return entry | {"role": field.role, "tensor_map": _described(field.tensor_map)}
    if field.is_pointer:
        entry["alignment"] = _alignment(plan, field)
    return entry | ({"role": field.role, "bytes": 4 * field.elements} if field.role in _OWN else {})


# Arrays that the caller allocates in addition to the tensors, with their requirements.
_OWN = {
    "workspace": "written by an earlier launch",
    "scratch": "zero before the first launch and after each one; concurrent launches must not share it",
}


# Alignment of workspaces and of values per channel, for the widest access of any kernel.
_OWN_ALIGNMENT = 16


def _alignment(plan: Plan, field: Field) -> int:
    """Return the required alignment of a pointer argument's address."""
    return _OWN_ALIGNMENT if field.role in (*_OWN, "value") else plan.alignment.get(field.role, 1)


def _says(plan: Plan, field: Field) -> str:
    if field.tensor_map is not None:
        return f"{field.says}; of {field.tensor_map.array}, encoded by {_encoding(field.tensor_map)} as in the manifest"
    own = f"; {4 * field.elements} bytes, {_OWN[field.role]}" if field.role in _OWN else ""
    alignment = _alignment(plan, field) if field.is_pointer else 1
    return f"{field.says}{own}" + f"; aligned to {alignment} bytes" * (alignment > 1)


def _how_to_launch(plan: Plan, symbol: str, smem_bytes: int) -> list[str]:
    """Return comments about requirements of a launch that its numbers do not show."""
    if plan.target.vendor == "amd" and smem_bytes:
        return [f"// {symbol} declares its shared memory statically: launch it with 0 bytes of dynamic shared memory."]
    if plan.target.vendor == "nvidia" and smem_bytes > SMEM_WITHOUT_ASKING:
        return [
            f"// {symbol} uses more than 48 KB of shared memory: before its first launch, call",
            f"// cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {smem_bytes}).",
        ]
    return []


def _described(tensor_map: TensorMap) -> dict[str, Any]:
    """Return all that a program needs to encode the map: its fields, and the values of cuda.h's enumerators."""
    return asdict(tensor_map) | {
        "encode": _encoding(tensor_map),
        "CUtensorMapDataType": tensor_maps.ELEMENT_TYPES[tensor_map.dtype],
        "CUtensorMapInterleave": tensor_maps.NO_INTERLEAVE,
        "CUtensorMapSwizzle": tensor_maps.SWIZZLES[tensor_map.swizzle],
        "CUtensorMapL2promotion": tensor_maps.L2_PROMOTIONS[tensor_map.l2_promotion],
        "CUtensorMapFloatOOBfill": tensor_maps.FILL_ZEROS,
    }


def _encoding(tensor_map: TensorMap) -> str:
    return "cuTensorMapEncodeTiled" if tensor_map.pixel_box is None else "cuTensorMapEncodeIm2col"


def _c_name(field: Field) -> str:
    return field.path.replace(".", "_")


def _c_type(plan: Plan, field: Field) -> str:
    """Return the field's type in C, with the aliases of the source expanded."""
    if field.tensor_map is not None:
        return "qconv_tensor_map"
    ctype, aliases = field.ctype, (plan.layers[field.layer] if field.layer else plan).aliases
    for alias, dtype in aliases.items():
        spelled = ELEMENT_TYPES[dtype].stdint
        ctype = re.sub(rf"\b{alias}\b", spelled, ctype)
    return re.sub(r"\bint\b", "int32_t", ctype)


def _header(kernels: Sequence[Exported]) -> str:
    lines = [
        "// The kernels of this export: argument structs and launch parameters. Each kernel has a file of its name.",
        "// Launches that run once per set of weights write what the last one reads. All take the same struct.",
        "// Compile each with the flags in the manifest: other flags fuse products and sums, which changes results.",
        "#pragma once",
        "#include <stdint.h>",
    ]
    if any(kernel.plan.tensor_maps for kernel in kernels):
        lines += ["", TENSOR_MAP]
    for kernel in kernels:
        row, plan, prefix = kernel.row, kernel.plan, kernel.symbol(kernel.plan.main.kernel)
        lines += [
            "",
            f"// {row.problem}",
            f"// {row}",
            "typedef struct {",
        ]
        lines += [f"    {_c_type(plan, field)} {_c_name(field)};  // {_says(plan, field)}" for field in plan.fields]
        lines.append(f"}} {prefix}_arguments;")
        for launch in plan.launches:
            lines += _how_to_launch(plan, kernel.symbol(launch.kernel), launch.smem_bytes)
        lines.append("enum {")
        for launch in plan.launches:
            symbol = kernel.symbol(launch.kernel)
            x, y, z = launch.grid
            lines.append(f"    {symbol}_grid_x = {x}, {symbol}_grid_y = {y}, {symbol}_grid_z = {z},")
            lines.append(f"    {symbol}_threads = {launch.threads}, {symbol}_smem_bytes = {launch.smem_bytes},")
        lines.append("};")
    return "\n".join(lines) + "\n"
