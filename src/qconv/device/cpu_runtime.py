"""The runtime of the CPU device: it compiles kernel sources with the system C++ compiler and runs them with one fiber
per GPU thread.

`launch` runs a kernel in this process at full speed, for results and timing. `run_sanitized` runs it in a harness, an
executable of its own, under AddressSanitizer with UndefinedBehaviorSanitizer, or under ThreadSanitizer. These find
faults that results need not show: accesses out of bounds and missing barriers.

`cpu_runtime.h` is the interface to the kernels. Builds are kept in a content-addressed cache.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from qconv.device import folders, program
from qconv.errors import CompileError, KernelMissing, LaunchError

Sanitizer: TypeAlias = Literal["address", "thread"]
Grid: TypeAlias = tuple[int, int, int]

# Flags of kernel sources. No contraction: the fp32 epilogue must be bit-exact. No -march=native: cached binaries are
# used on other machines. -O2 makes no kernel faster and takes 1.3 times as long to compile, which a first use of the
# CPU device waits for. Aliasing is as strict as with -O2, and as on a GPU.
KERNEL_FLAGS = (
    "-O1",
    "-fstrict-aliasing",
    "-std=c++17",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",  # GPUs have none; calls of the runtime then need no unwinding
)
# A kernel is loaded after the runtime, whose libraries have everything that it calls. Reading them would take the
# linker as long as the compiler takes for a short kernel.
SHARED_FLAGS = ("-shared", "-nodefaultlibs")
RUNTIME_FLAGS = ("-O2", "-std=c++17", "-fPIC", "-pthread")
LIBRARY_FLAGS = (*RUNTIME_FLAGS, "-shared", "-Wl,-z,defs")  # fail now if it could not be loaded
# Line numbers and inlined functions for reports. The locations of variables would double the compile time.
_SANITIZED_FLAGS = (*(flag for flag in KERNEL_FLAGS if flag != "-O1"), "-g1", "-fno-omit-frame-pointer")
# The number of threads per launch that get their own fiber under ThreadSanitizer; see cpu_runtime.h.
FRESH_FIBERS = 4096
# The checks for undefined behaviour add enough branches that optimising them takes longer than running without. Under
# ThreadSanitizer, the run takes longer than the build.
_SANITIZERS: dict[Sanitizer, tuple[str, str]] = {
    "address": ("-fsanitize=address,undefined", "-O0"),
    "thread": ("-fsanitize=thread", "-O1"),
}
_FOUND_EXIT_CODE = 66  # of a sanitizer with a finding
_JOB_EXIT_CODE = 2  # of the harness, for an invalid job
_RUNTIME_EXIT_CODE = 3  # of the harness, for an error of the runtime

_HERE = Path(__file__).parent
_HEADERS = tuple(sorted(path.name for path in _HERE.glob("cpu_*.h")))


@dataclass(frozen=True)
class Compiler:
    path: str
    name: str  # with its version: "g++ 12.2.0"


@dataclass(frozen=True)
class Pointer:
    """A pointer in the arguments struct: at `offset`, to `byte_offset` in the buffer with index `buffer`."""

    offset: int
    buffer: int
    byte_offset: int = 0


@dataclass(frozen=True)
class Arguments:
    """The arguments struct of a kernel: its size, its pointers, and (offset, bytes) of everything else."""

    size: int
    pointers: tuple[Pointer, ...] = ()
    values: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True)
class SanitizerReport:
    """The result of a run under a sanitizer.

    kind     "clean"; the sanitizer's word ("data race", "heap-buffer-overflow", and "use-after-poison" for
             addresses next to shared memory); "undefined behaviour"; "runtime error" (such as a divergent
             barrier); "crash"; "timeout".
    text     the report, with line numbers of the kernel source.
    outputs  the requested buffers after the run; empty unless the kernel ran to its end.
    """

    clean: bool
    kind: str
    text: str
    outputs: tuple[bytes, ...]


def find_compiler() -> Compiler:
    """Return the C++ compiler: $CXX if set, else the first of g++, c++ and clang++ that is installed."""
    chosen = os.environ.get("CXX")
    remedy = "install g++ (Debian: apt-get install g++) or set CXX"
    if chosen and shutil.which(chosen) is None:
        raise CompileError(f"CXX is {chosen!r}, which is not an executable; {remedy}")
    for candidate in [chosen] if chosen else ["g++", "c++", "clang++"]:
        path = shutil.which(candidate)
        if path is not None:
            return _identify(os.path.abspath(path))
    raise CompileError(f"no C++ compiler for the CPU device; {remedy}")


@functools.cache
def _identify(path: str) -> Compiler:
    banner = _run_compiler([path, "--version"], limit_s=program.PROBE_S)
    version = _run_compiler([path, "-dumpfullversion", "-dumpversion"], limit_s=program.PROBE_S).strip()
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise CompileError(
            f"{path} does not tell its version as g++ and clang++ do (-dumpversion gives {version[:80]!r}); set CXX to "
            "one of them"
        )
    return Compiler(path, f"{'clang++' if 'clang' in banner else 'g++'} {version}")


def _run_compiler(command: Sequence[str], folder: Path | None = None, limit_s: float | None = None) -> str:
    run = program.run(command, folder, limit_s)
    if run.returncode != 0:
        raise CompileError(f"{' '.join(command)}\n{run.stderr or run.stdout}")
    return run.stdout


def build(
    files: Mapping[str, str],
    flags: Sequence[str],
    suffix: str,
    cache: Path,
    objects: Sequence[Path] = (),
    name: str | None = None,
) -> Path:
    """Compile the first of `files` (name -> text), if any, next to the others, and link `objects` to it.

    The result's name is by default the digest of everything that determines its content. It is built under another name
    and published in one step, so that nobody loads half of it. A concurrent build publishes the same result again.
    """
    compiler = find_compiler()
    parts = [compiler.name, *flags, *(path.name for path in objects)]
    result = cache / f"{name or digest(parts, files)}{suffix}"
    if not folders.is_whole(result):
        if program.is_forbidden():
            raise KernelMissing(
                f"{next(iter(files), 'a library')} is not built, and QCONV_NO_COMPILE forbids compiling it"
            )
        _compile(compiler, files, flags, result, objects)
    return result


def digest(parts: Sequence[str], files: Mapping[str, str]) -> str:
    content = [folders.machine(), *parts, *(part for item in files.items() for part in item)]
    return hashlib.sha256("\0".join(content).encode()).hexdigest()[:32]


def _compile(
    compiler: Compiler, files: Mapping[str, str], flags: Sequence[str], result: Path, objects: Sequence[Path] = ()
) -> None:
    cache = result.parent
    cache.mkdir(folders.FOLDER_MODE, parents=True, exist_ok=True)
    with folders.building(cache) as folder:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        # Reports name the source without its folder, which is deleted before they are read.
        command = [compiler.path, *flags, f"-ffile-prefix-map={folder.resolve()}=.", *list(files)[:1]]
        _run_compiler([*command, *(str(path.resolve()) for path in objects), "-o", "built"], folder)
        built, record = folder / "built", folder / "record"
        if not built.exists():
            raise CompileError(program.wrote_nothing(compiler.path))
        record.write_text(folders.digest_of(built))
        for path, mode, final in (
            (built, folders.FOLDER_MODE, result),
            (record, folders.FILE_MODE, folders.record_of(result)),
        ):
            path.chmod(mode)
            os.replace(path, final)


class LaunchedGrid(ctypes.Structure):
    """`qconv_cpu_grid` of cpu_runtime.h."""


LaunchedGrid._fields_ = [
    ("entry", ctypes.c_void_p),
    ("arguments", ctypes.c_void_p),
    ("before", ctypes.POINTER(LaunchedGrid)),
    ("shared_bytes", ctypes.c_ulong),
    ("grid", ctypes.c_uint * 3),
    *((name, ctypes.c_uint) for name in ("threads", "cluster", "warp_size", "workers", "seed")),
]

_runtime: ctypes.CDLL | None = None
_runtime_lock = threading.Lock()


def runtime_name() -> str:
    """Return the file name of the runtime. It does not depend on the compiler: a machine that has the file needs
    none."""
    return f"runtime-{digest(LIBRARY_FLAGS, runtime_sources())}.so"


def build_runtime(cache: Path) -> Path:
    path = cache / runtime_name()
    if not folders.is_whole(path):
        _compile(find_compiler(), runtime_sources(), LIBRARY_FLAGS, path)
    return path


def runtime_library(cache: Path) -> ctypes.CDLL:
    return load_runtime(lambda: build_runtime(cache))


def load_runtime(find: Callable[[], Path]) -> ctypes.CDLL:
    """Load the runtime on first use. There is one per process, to which kernels loaded later are bound."""
    global _runtime
    with _runtime_lock:
        if _runtime is None:
            library = ctypes.CDLL(str(find()), mode=ctypes.RTLD_GLOBAL)
            library.qconv_cpu_launch.argtypes = [ctypes.POINTER(LaunchedGrid), ctypes.c_char_p, ctypes.c_ulong]
            library.qconv_cpu_launch.restype = ctypes.c_int
            _runtime = library
        return _runtime


def launch(
    entry: int,
    arguments: ctypes.Array[Any] | ctypes.Structure,
    grid: Grid,
    threads: int,
    shared_bytes: int,
    *,
    cluster: int = 1,
    warp_size: int = 32,
    workers: int = 0,
    seed: int = 0,
) -> None:
    """Run the kernel at this entry address and wait for it; `cpu_runtime.h` explains the parameters.

    Raise `LaunchError` where the runtime reports an error, such as a divergent barrier.
    """
    run_grid(launched_grid(entry, arguments, grid, threads, shared_bytes, cluster, warp_size, workers, seed))


def launched_grid(
    entry: int,
    arguments: ctypes.Array[Any] | ctypes.Structure,
    grid: Grid,
    threads: int,
    shared_bytes: int,
    cluster: int = 1,
    warp_size: int = 32,
    workers: int = 0,
    seed: int = 0,
) -> LaunchedGrid:
    """Return the launch for `run_grid`. `arguments` must live as long as it does."""
    _require_unsigned((*grid, threads, shared_bytes, cluster, warp_size, workers, seed))
    sizes = (grid, threads, cluster, warp_size, workers, seed)
    return LaunchedGrid(entry, ctypes.addressof(arguments), None, shared_bytes, *sizes)


def run_grid(launched: LaunchedGrid) -> None:
    if _runtime is None:
        raise RuntimeError("the CPU runtime is not loaded; call runtime_library(cache) and then load kernels")
    message = ctypes.create_string_buffer(1024)
    if _runtime.qconv_cpu_launch(launched, message, len(message)) != 0:
        raise LaunchError(message.value.decode(errors="replace"))


def _require_unsigned(values: Iterable[int]) -> None:
    for value in values:
        if not 0 <= value < 2**32:  # C and ctypes would wrap silently
            raise ValueError(f"{value} in a launch; grid, threads, sizes and seed are unsigned, of 32 bits")


def run_sanitized(
    source: str,
    kernel: str,
    sanitizer: Sanitizer,
    *,
    arguments: Arguments,
    buffers: Sequence[bytes],
    outputs: Sequence[int] = (),
    grid: Grid,
    threads: int,
    shared_bytes: int,
    cluster: int = 1,
    warp_size: int = 32,
    workers: int = 2,
    seed: int = 0,
    fresh_fibers: int = FRESH_FIBERS,
    cache: Path,
    timeout_s: float = 120.0,
) -> SanitizerReport:
    """Run `<kernel>_entry` of a source once under a sanitizer, in a process of its own.

    "address" checks addresses and undefined behaviour. "thread" finds missing barriers and blocks that write the same
    bytes, whatever order they ran in. Both stop at the first finding. A fiber per thread is what takes longest: blocks
    that begin after `fresh_fibers` threads share fibers, and no longer show races with other blocks of their worker.
    `buffers` are copied to memory of exactly their size; `outputs` are the indices of those to return.
    """
    _require_unsigned((*grid, threads, shared_bytes, cluster, warp_size, workers, seed, fresh_fibers))
    if not kernel.isidentifier():
        raise ValueError(f"kernel is {kernel!r}; it has to be the name of a C function without its _entry")
    harness = _sanitized_harness(sanitizer, cache)
    job = [
        f"library {_sanitized_library(source, sanitizer, cache).resolve()}",
        f"kernel {kernel}",
        f"grid {grid[0]} {grid[1]} {grid[2]}",
        f"threads {threads}",
        f"shared {shared_bytes}",
        f"cluster {cluster}",
        f"warp {warp_size}",
        f"workers {workers}",
        f"seed {seed}",
        f"fresh {fresh_fibers}",
        *(f"buffer {len(content)} in{index}" for index, content in enumerate(buffers)),
        f"arguments {arguments.size}",
        *(f"pointer {item.offset} {item.buffer} {item.byte_offset}" for item in arguments.pointers),
        *(f"bytes {offset} {value.hex()}" for offset, value in arguments.values),
        *(f"output {index} out{index}" for index in outputs),
    ]
    with tempfile.TemporaryDirectory(prefix="qconv-") as folder:
        Path(folder, "job").write_text("\n".join(job) + "\n")
        for index, content in enumerate(buffers):
            Path(folder, f"in{index}").write_bytes(content)
        try:
            run = _run_job(harness, Path(folder), timeout_s)
        except subprocess.TimeoutExpired:
            return SanitizerReport(False, "timeout", f"{kernel} ran for more than {timeout_s:g} s", ())
        kind = _kind_of(run)
        written = [Path(folder, f"out{index}") for index in outputs]
        complete = all(path.exists() for path in written)
        results = tuple(path.read_bytes() for path in written) if complete else ()
        return SanitizerReport(kind == "clean", kind, run.stderr, results)


def _sanitized_harness(sanitizer: Sanitizer, cache: Path) -> Path:
    # The runtime is told which sanitizer is active, but neither it nor the harness is instrumented: only linked with
    # the sanitizer. One harness serves all kernels, as linking it takes longer than compiling one.
    tell = f"-DQCONV_SANITIZE_{sanitizer.upper()}"
    objects = [
        build(_with_headers(name), [*RUNTIME_FLAGS, "-g1", *told, "-c"], ".o", cache)
        for name, told in (("cpu_runtime.cpp", [tell]), ("cpu_harness.cpp", []))
    ]
    # The kernel's library calls the runtime's functions.
    return build({}, [*_SANITIZERS[sanitizer], "-pthread", "-rdynamic"], "", cache, objects)


def _sanitized_library(source: str, sanitizer: Sanitizer, cache: Path) -> Path:
    flags = [*_SANITIZED_FLAGS, *_SANITIZERS[sanitizer], "-fno-sanitize-recover=all", *SHARED_FLAGS]
    return build({"kernel.cpp": source}, flags, ".so", cache)


def runtime_sources() -> dict[str, str]:
    """Return the runtime's source file and its headers."""
    return _with_headers("cpu_runtime.cpp")


def _with_headers(name: str) -> dict[str, str]:
    return {file: (_HERE / file).read_text(encoding="utf-8") for file in (name, *_HEADERS)}


def _run_job(executable: Path, folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    options = f"exitcode={_FOUND_EXIT_CODE}:detect_leaks=0:halt_on_error=1"
    names = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")
    environment = {**os.environ, **dict.fromkeys(names, options)}
    command = [str(executable.resolve()), "job"]

    def run(prefix: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )

    result = run([])
    # Older ThreadSanitizers fail with the address space randomisation of newer kernels.
    if "unexpected memory mapping" in result.stderr and shutil.which("setarch"):
        result = run(["setarch", platform.machine(), "-R"])
    if "unexpected memory mapping" in result.stderr:
        raise RuntimeError(f"{result.stderr.strip()}\nlower vm.mmap_rnd_bits to 28 for ThreadSanitizer")
    return result


def _kind_of(run: subprocess.CompletedProcess[str]) -> str:
    if run.returncode == 0:
        return "clean"
    if run.returncode == _RUNTIME_EXIT_CODE:
        return "runtime error"
    if run.returncode == _JOB_EXIT_CODE:
        raise ValueError(f"the harness refuses the job: {run.stderr.strip()}")
    found = re.search(r"(?:AddressSanitizer|ThreadSanitizer): (.+?)(?: on | \(|$)", run.stderr, re.MULTILINE)
    if found:
        return found[1]
    return "undefined behaviour" if ": runtime error: " in run.stderr else "crash"
