"""The folder of a library: sources, binaries, the launcher and its table, a self-test and an example, with a CMake
build."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from qconv.device import cache, cpu, cpu_runtime
from qconv.device.cache import Binary
from qconv.device.compile import command_for, compile_source, compiler_ahead
from qconv.generator import Source
from qconv.instances.library.entry import Entry
from qconv.instances.library.export import Exported, Served, ordered
from qconv.instances.library.folder import check_free, replace
from qconv.instances.library.key_constants import constant_of, constants_text
from qconv.instances.library.table import binary_name, parameters_of, table_text
from qconv.instances.library.vectors import SEED, array_text, given, spelled, vectors_text
from qconv.instances.load.winners import Winner
from qconv.ops.registry import draw

if TYPE_CHECKING:
    from qconv.tune_db.measurement import Measurement


class Page(Template):
    """A template with @NAME@ placeholders, because `$` has another meaning in CMake."""

    delimiter = "@"
    pattern = r"@(?:(?P<escaped>@)|(?P<named>[A-Z]+)@|(?P<braced>[A-Z]+)@@|(?P<invalid>(?!)))"  # type: ignore[assignment]


def example_text(page: Page, entry: Entry) -> str:
    names = dict.fromkeys(name for layer, _ in entry.layers for name in parameters_of(entry, layer))
    values = {name: value for name, value in given(draw(entry.problem, SEED)).items() if name in names}
    lines, rows = [], []
    for name, array in values.items():
        is_integer = array.dtype == np.int32
        ctype, kind = ("int32_t", "QCONV_INT32") if is_integer else ("double", "QCONV_FLOAT64")
        written = ", ".join(spelled(value) for value in array)
        lines.append(f"    const std::vector<{ctype}> {name} = {{{written}}};")
        rows.append(f'        {{"{name}", {kind}, {name}.size(), {name}.data()}},')
    return page.substitute(KEY=constant_of(entry.problem), VALUES="\n".join(lines), PARAMETERS="\n".join(rows))


FORMAT = "qconv-library-1"
ABI_VERSION = 1

SAME = {
    "cmake/aarch64-linux-gnu.cmake": "aarch64-linux-gnu.cmake",
    "cmake/qconv_kernels.pc.in": "qconv_kernels.pc.in",
    "example/onnxruntime_op.cpp": "onnxruntime_op.cpp",
    "example/pytorch_op.cpp": "pytorch_op.cpp",
    "include/qconv_kernels.h": "qconv_kernels.h",
    "include/qconv_kernels.hpp": "qconv_kernels.hpp",
    "src/qconv_checks.h": "qconv_checks.h",
    "src/qconv_keys.h": "qconv_keys.h",
    "src/qconv_launcher.cpp": "qconv_launcher.cpp",
    "src/qconv_objects.h": "qconv_objects.h",
    "src/qconv_packing.h": "qconv_packing.h",
    "src/qconv_parameters.h": "qconv_parameters.h",
    "src/qconv_table.h": "qconv_table.h",
    "src/qconv_transposed.h": "qconv_transposed.h",
    "src/qconv_workspace.h": "qconv_workspace.h",
    "test/qconv_crc.h": "qconv_crc.h",
    "test/self_test.cpp": "self_test.cpp",
    "test/self_test_vectors.h": "self_test_vectors.h",
}
DEVICES = {"cpu": "device_cpu.h", "nvidia": "device_cuda.h", "amd": "device_hip.h"}


@dataclass(frozen=True)
class Library:
    folder: Path
    entries: tuple[Entry, ...]
    files: tuple[str, ...]


def write(
    rows: Iterable[Winner | Measurement], folder: Path, watch: Callable[[int, int], None] = lambda done, total: None
) -> Library:
    """Compile the kernels and write all files. A library is for one vendor. `watch` receives the number of compiled
    kernels and the total."""
    check_free(folder)
    entries = tuple(Entry(one) for one in _sorted(ordered(rows)))
    vendor = _vendor_of(entries)
    kernels = {kernel.file: kernel for entry in entries for kernel in entry.kernels}
    binaries: dict[str, Binary] = {}
    # Threads suffice: a compiler is a separate process or releases Python's lock.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, binary in zip(kernels, pool.map(_compiled, kernels.values()), strict=True):
            binaries[file] = binary
            watch(len(binaries), len(kernels))
    files: dict[str, str | bytes] = {place: _text(name) for place, name in SAME.items()}
    files |= {"src/qconv_device.h": _text(DEVICES[vendor]), "src/qconv_table.cpp": table_text(entries)}
    files |= {f"kernels/{file}": kernel.text for file, kernel in kernels.items()}
    for file, binary in binaries.items() if vendor != "cpu" else ():
        files[f"src/{Path(file).stem}.cpp"] = _embedded(kernels[file], binary)
    files["include/qconv_problems.h"] = constants_text(entry.problem for entry in entries)
    files["test/self_test_vectors.cpp"] = vectors_text(entries)
    files["example/example.cpp"] = example_text(Page(_text("example.cpp.in")), entries[0])
    if vendor == "cpu":
        files |= {f"runtime/{name}": text for name, text in cpu_runtime.runtime_sources().items()}
    else:
        files["include/qconv_embedded.h"] = _embedding(files)
    files["CMakeLists.txt"] = _cmake(vendor, files)
    files |= {_binary_file(file, binary): binary.data for file, binary in binaries.items()}
    return Library(folder, entries, replace(folder, files, _manifest(entries, kernels, binaries)))


def _sorted(found: Sequence[Served]) -> list[Served]:
    return sorted(found, key=lambda one: (str(one.winner.problem), one.winner.target, one.winner.device))


def _vendor_of(entries: Sequence[Entry]) -> str:
    vendors = {kernel.plan.target.vendor: entry.served.winner.target for entry in entries for kernel in entry.kernels}
    if len(vendors) > 1:
        raise ValueError(
            f"one library for {' and '.join(vendors.values())}: it is launched by one driver; export each vendor's "
            "targets to a folder of its own, with --target"
        )
    return next(iter(vendors))


def _text(name: str) -> str:
    return (resources.files("qconv.instances.library") / name).read_text(encoding="utf-8")


def _compiled(kernel: Exported) -> Binary:
    """Compile the exported text, in which kernels have unique names."""
    source = Source(kernel.text, kernel.source.digest, kernel.source.suffix)
    target = kernel.plan.target
    if target.vendor == "cpu":
        return _object(kernel)
    symbols = tuple(kernel.symbol(launch.kernel) for launch in kernel.plan.launches)
    return cache.find(source, target.name, kernel.row.toolchain) or compile_source(
        source, target, symbols, compiler=compiler_ahead(target)
    )


def _object(kernel: Exported) -> Binary:
    """Compile an object file: CPU kernels are linked, not loaded."""
    begin = time.perf_counter()
    flags = (*cpu_runtime.KERNEL_FLAGS, "-c")
    path = cpu_runtime.build({kernel.file: kernel.text}, flags, ".o", cpu.runtime_cache())
    name = cpu_runtime.find_compiler().name
    return Binary(path.read_bytes(), path, name, (time.perf_counter() - begin) * 1e3, {})


def _embedded(kernel: Exported, binary: Binary) -> str:
    made = array_text(binary_name(kernel), binary.data)
    return f"// {kernel.file}, compiled by {binary.toolchain}.\n#include <cstddef>\n\nnamespace qconv {{\n{made}}}\n"


def _binary_file(file: str, binary: Binary) -> str:
    return _binary_place(file, binary.path.suffix)


def _binary_place(file: str, suffix: str) -> str:
    return f"binaries/{Path(file).stem}{suffix}"


_VENDORS = {
    "cpu": """option(QCONV_PREBUILT "Link the objects in binaries/ instead of compiling the sources" OFF)
if(QCONV_PREBUILT)
  set(QCONV_KERNELS@OBJECTS@)
  set_source_files_properties(${QCONV_KERNELS} PROPERTIES EXTERNAL_OBJECT ON)
else()
  set(QCONV_KERNELS@KERNELS@)
  # Each file is self-contained, so LTO gains nothing. Warnings are off because the files are generated.
  set_source_files_properties(${QCONV_KERNELS} PROPERTIES COMPILE_OPTIONS "@FLAGS@;-fno-lto;-w")
endif()
target_sources(${QCONV_LIBRARY} PRIVATE ${QCONV_KERNELS} runtime/cpu_runtime.cpp)
# With 1, a launch starts no threads and allocates nothing.
set(QCONV_CPU_WORKERS 0 CACHE STRING "Threads of a launch on the CPU; 0: one per core")
target_compile_definitions(${QCONV_LIBRARY} PRIVATE QCONV_CPU_WORKERS=${QCONV_CPU_WORKERS})
find_package(Threads REQUIRED)
target_link_libraries(${QCONV_LIBRARY} PUBLIC Threads::Threads)""",
    "nvidia": """# The driver is loaded when a device is opened, so the build needs only its header.
find_path(QCONV_CUDA_INCLUDE cuda.h HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
if(NOT QCONV_CUDA_INCLUDE)
  message(FATAL_ERROR "cuda.h was not found: install the CUDA toolkit, or give -DQCONV_CUDA_INCLUDE=FOLDER")
endif()
target_include_directories(${QCONV_LIBRARY} PRIVATE ${QCONV_CUDA_INCLUDE})
find_package(Threads REQUIRED)
target_link_libraries(${QCONV_LIBRARY} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})""",
    "amd": """# The HIP runtime is loaded when a device is opened, so the build needs only its header.
find_path(QCONV_HIP_INCLUDE hip/hip_runtime_api.h HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES include)
if(NOT QCONV_HIP_INCLUDE)
  message(FATAL_ERROR "hip/hip_runtime_api.h was not found: install ROCm's HIP, or give -DQCONV_HIP_INCLUDE=FOLDER")
endif()
target_include_directories(${QCONV_LIBRARY} PRIVATE ${QCONV_HIP_INCLUDE})
target_compile_definitions(${QCONV_LIBRARY} PRIVATE __HIP_PLATFORM_AMD__)
find_package(Threads REQUIRED)
target_link_libraries(${QCONV_LIBRARY} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})""",
}


def _cmake(vendor: str, files: Iterable[str]) -> str:
    # List the files by name: the folder may have others, which are not of the export.
    kernels = [name for name in files if name.startswith("kernels/")]
    objects = [_binary_place(Path(name).name, ".o") for name in kernels]
    lines = _VENDORS[vendor].replace("@FLAGS@", ";".join(cpu_runtime.KERNEL_FLAGS))
    lines = lines.replace("@KERNELS@", _listed(kernels)).replace("@OBJECTS@", _listed(objects))
    return Page(_text("CMakeLists.txt.in")).substitute(
        VERSION=f"{ABI_VERSION}.0",
        SOVERSION=str(ABI_VERSION),
        SOURCES="\n".join(f"  {name}" for name in _binaries(files)),
        VENDOR=lines,
    )


def _embedding(files: Iterable[str]) -> str:
    """Return the header that includes everything. It is for GPUs, whose kernels are binaries: kernels for the CPU are
    compiled one by one, with flags of their own."""
    lines = "\n".join(f'#include "../{name}"' for name in _binaries(files))
    return Page(_text("qconv_embedded.h.in")).substitute(SOURCES=lines)


def _binaries(files: Iterable[str]) -> list[str]:
    own = ("src/qconv_launcher.cpp", "src/qconv_table.cpp")
    return [name for name in files if name.startswith("src/") and name.endswith(".cpp") and name not in own]


def _listed(names: Iterable[str]) -> str:
    return "".join(f"\n    {name}" for name in names)


def _manifest(entries: Sequence[Entry], kernels: dict[str, Exported], binaries: dict[str, Binary]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "abi_version": ABI_VERSION,
        "header": "include/qconv_kernels.h",
        "problems": [_problem(entry) for entry in entries],
        "kernels": [_kernel(kernel, binaries.get(file)) for file, kernel in kernels.items()],
    }


def _problem(entry: Entry) -> dict[str, Any]:
    winner = entry.served.winner
    return {
        "problem": str(winner.problem),
        "target": winner.target,
        "origin": winner.origin,
        "device": winner.device or None,
        "time_us": winner.median_us,
        "config": winner.config.as_dict(),
        "kernels": [f"kernels/{kernel.file}" for kernel in entry.kernels],
    }


def _kernel(kernel: Exported, binary: Binary | None) -> dict[str, Any]:
    """Describe a kernel: the command that compiles its source with common compilers, and the binary compiled here."""
    entry: dict[str, Any] = {
        "file": f"kernels/{kernel.file}",
        "digest": kernel.source.digest,
        "compile": command_for(kernel.plan.target, kernel.file),
    }
    if binary is not None:
        digest = hashlib.sha256(binary.data).hexdigest()
        entry["binary"] = {
            "file": _binary_file(kernel.file, binary),
            "sha256": digest,
            "toolchain": binary.toolchain,
        }
    return entry
