"""The folder of a shipped network: weights, and for each target a plan and kernels; the library that opens it, as C++
sources with a CMake build; and a list of all files with their checksums."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from qconv.device import cpu, cpu_runtime
from qconv.device.cache import Binary
from qconv.device.memory import ALIGNMENT
from qconv.device.traced import Called, Launched
from qconv.instances.load.building import FILE_MODE, FOLDER_MODE
from qconv.network.ship.plan import Plan
from qconv.network.ship.plan_text import Span, plan_text, quoted

FORMAT = "qconv-network-1"
LIST, WEIGHTS = "network.txt", "weights.bin"
# Files of the library, by their places in the folder.
LIBRARY = {
    "CMakeLists.txt": "CMakeLists.txt",
    "include/qconv_network.h": "qconv_network.h",
    "include/qconv_network.hpp": "qconv_network.hpp",
    "include/qconv_network_embedded.h": "qconv_network_embedded.h",
    "src/qconv_network.cpp": "qconv_network.cpp",
    "src/qconv_shipped.h": "qconv_shipped.h",
    "src/qconv_shipped.cpp": "qconv_shipped.cpp",
    "src/qconv_engine.h": "qconv_engine.h",
    "src/qconv_loaded.h": "qconv_loaded.h",
    "src/qconv_engine_cpu.cpp": "qconv_engine_cpu.cpp",
    "src/qconv_engine_cuda.cpp": "qconv_engine_cuda.cpp",
    "src/qconv_engine_hip.cpp": "qconv_engine_hip.cpp",
    "src/qconv_gpu.h": "qconv_gpu.h",
    "src/graph_cuda.h": "graph_cuda.h",
    "src/graph_hip.h": "graph_hip.h",
    "program/qconv_run.cpp": "qconv_run.cpp",
    "program/drawn.h": "drawn.h",
    "program/npy.h": "npy.h",
}
# Files that the library of single kernels has too.
SHARED = ("device_cuda.h", "device_hip.h", "qconv_crc.h", "qconv_kernels.h", "qconv_parameters.h", "qconv_table.h")
CROSS = "aarch64-linux-gnu.cmake"
ENTRY = re.compile(r'extern "C" void (\w+)_entry\(')


@dataclass
class _Content:
    """The bytes of a file that is written from aligned parts. Equal parts are one."""

    data: bytearray = field(default_factory=bytearray)
    known: dict[bytes, Span] = field(default_factory=dict)

    def add(self, part: bytes) -> Span:
        if part not in self.known:
            self.data += bytes(-len(self.data) % ALIGNMENT)
            self.known[part] = Span(len(self.data), len(part))
            self.data += part
        return self.known[part]


def write(plans: Sequence[Plan], folder: Path, more: Mapping[str, bytes]) -> list[str]:
    """Write the folder, with further files in it, and return the names of all."""
    weights, files = _Content(), dict(more)
    for plan in plans:
        spans = [weights.add(constant.content) for constant in plan.constants]
        files |= _of_target(plan, spans)
    files[WEIGHTS] = bytes(weights.data)
    files |= {place: _text("network.ship", name) for place, name in LIBRARY.items()}
    files |= {f"src/{name}": _text("instances.library", name) for name in SHARED}
    files[f"cmake/{CROSS}"] = _text("instances.library", CROSS)
    files["src/cpu_runtime.h"] = cpu_runtime.runtime_sources()["cpu_runtime.h"].encode()
    files[LIST] = _list([plan.target.name for plan in plans], files)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        for each in reversed(Path(name).parents):
            (folder / each).mkdir(FOLDER_MODE, exist_ok=True)
        path.write_bytes(content)
        path.chmod(FILE_MODE)
    return list(files)


def _of_target(plan: Plan, constants: Sequence[Span]) -> Iterator[tuple[str, bytes]]:
    target = plan.target.name
    steps = (step for program in plan.programs for step in program.steps)
    yield from ((step.file, step.content) for step in steps if isinstance(step, Called))
    yield from (
        (f"sources/{target}/{_digest(binary)}{_source(binary).suffix}", _source(binary).read_bytes())
        for binary in plan.binaries
    )
    if plan.target.vendor == "cpu":
        spans = [Span(0, 0)] * len(plan.binaries)
        yield f"{target}/kernels.so", _shared_object(plan)
        yield f"{target}/plan.txt", plan_text(plan, spans, constants, _cpu_symbol).encode()
        return
    kernels = _Content()
    spans = [kernels.add(binary.data) for binary in plan.binaries]
    yield f"{target}/kernels.bin", bytes(kernels.data)
    yield f"{target}/plan.txt", plan_text(plan, spans, constants, lambda step: step.launch.kernel).encode()


def _source(binary: Binary) -> Path:
    """Return the source that a binary was compiled from, which lies beside it in the cache."""
    return next(path for path in sorted(binary.path.parent.iterdir()) if path.suffix in (".cu", ".hip", ".cpp"))


def _digest(binary: Binary) -> str:
    """Name a binary by the folder of its source in the cache, the digest of the whole text."""
    return binary.path.parent.parent.name[:16]


def _cpu_symbol(step: Launched) -> str:
    return f"{step.launch.kernel}_{_digest(step.binary)}"


def _shared_object(plan: Plan) -> bytes:
    """Link all kernels with the runtime that they call. Each kernel's functions get names of their own."""
    cache = cpu.runtime_cache()
    objects = [
        cpu_runtime.build({"kernel.cpp": _renamed(binary)}, [*cpu_runtime.KERNEL_FLAGS, "-c"], ".o", cache)
        for binary in plan.binaries
    ]
    own = [*cpu_runtime.RUNTIME_FLAGS, "-DQCONV_ONE_OF_MANY_RUNTIMES", "-c"]
    runtime = cpu_runtime.build(cpu_runtime.runtime_sources(), own, ".o", cache)
    flags = ["-shared", "-pthread", "-static-libstdc++", "-static-libgcc", "-Wl,-z,defs", "-Wl,-Bsymbolic", "-Wl,-s"]
    return cpu_runtime.build({}, flags, ".so", cache, [*objects, runtime]).read_bytes()


def _renamed(binary: Binary) -> str:
    text = _source(binary).read_text()
    names = dict.fromkeys(ENTRY.findall(text))
    lines = (f"#define {name}{part} {name}_{_digest(binary)}{part}\n" for name in names for part in ("", "_entry"))
    return "".join(lines) + text


def _list(targets: Sequence[str], files: dict[str, bytes]) -> bytes:
    lines = [FORMAT, *(f"target {target}" for target in targets)]
    lines += [f"file {quoted(name)} {len(content)} {zlib.crc32(content)}" for name, content in files.items()]
    text = "".join(f"{line}\n" for line in lines).encode()
    return text + f"crc {zlib.crc32(text)}\n".encode()


def _text(package: str, name: str) -> bytes:
    return (resources.files(f"qconv.{package}") / name).read_bytes()
