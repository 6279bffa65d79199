"""The CPU device's runtime, tested by small kernels: results, schedules, divergence, refusals."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cpu_kernels import DIVERGENT, INDICES, PRELUDE, REDUCE, WARP, Runner, distinct

from qconv.device import cpu_runtime
from qconv.device.cpu import runtime_cache
from qconv.errors import CacheError, CompileError, CompilerKilled, LaunchError


@pytest.fixture(scope="module")
def cache() -> Path:
    return runtime_cache()


@pytest.fixture(scope="module")
def run(cache: Path) -> Runner:
    return Runner(cache)


class TestResults:
    @pytest.mark.parametrize("seed", [0, 1, 7])
    @pytest.mark.parametrize("workers", [0, 1, 3])
    @pytest.mark.parametrize("threads", [64, 256, 1024])
    def test_block_reduction(self, run: Runner, threads: int, workers: int, seed: int) -> None:
        values = distinct(10 * threads)
        result = run(
            "reduce",
            values,
            10,
            threads,
            grid=(10, 1, 1),
            threads=threads,
            shared_bytes=4 * threads,
            workers=workers,
            seed=seed,
        )
        assert result == [sum(values[block * threads : (block + 1) * threads]) for block in range(10)]

    @pytest.mark.parametrize("seed", [0, 1, 7])
    @pytest.mark.parametrize("warp_size", [32, 64])
    def test_shuffle_and_ballot(self, run: Runner, warp_size: int, seed: int) -> None:
        values = distinct(192)
        warps = [values[first : first + warp_size] for first in range(0, 192, warp_size)]
        options: dict[str, Any] = {"threads": 192, "warp_size": warp_size, "seed": seed}
        assert run("warp_sum", values, 192, warp_size, **options) == [
            total for warp in warps for total in [sum(warp)] * warp_size
        ]
        bits = [sum((value & 1) << lane for lane, value in enumerate(warp)) for warp in warps]
        ballots = run("ballot", values, 384, warp_size, **options)
        assert [
            (low & 0xFFFFFFFF) | (high & 0xFFFFFFFF) << 32
            for low, high in zip(ballots[::2], ballots[1::2], strict=True)
        ] == [vote for vote in bits for _ in range(warp_size)]

    @pytest.mark.parametrize("seed", [0, 1, 7])
    def test_wide_deposits_survive_until_the_next_exchange(self, run: Runner, seed: int) -> None:
        result = run("rotate_wide", [], 16 * 128, 32, threads=128, seed=seed)
        assert result == [16 * (t // 32 * 32 + (t % 32 + 5) % 32) + word for t in range(128) for word in range(16)]

    def test_a_partial_last_warp_exchanges_among_its_lanes(self, run: Runner) -> None:
        values = distinct(40)
        result = run("ballot", values, 80, 8, threads=40, warp_size=32)  # reads the first 8 lanes' votes
        expected = [sum((values[first + i] & 1) << i for i in range(8)) for first in (0, 32)]
        assert result[::2] == [expected[t // 32] for t in range(40)]

    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize("seed", [0, 1, 7])
    def test_grid_indices(self, run: Runner, seed: int, workers: int) -> None:
        result = run("indices", [], 60 * 5, 5, grid=(3, 4, 5), threads=5, workers=workers, seed=seed)
        assert result == [
            x + 10 * y + 100 * z + 1000 * t for z in range(5) for y in range(4) for x in range(3) for t in range(5)
        ]

    def test_four_python_threads_launch_at_once(self, run: Runner) -> None:
        values = distinct(8 * 256)
        expected = [sum(values[block * 256 : (block + 1) * 256]) for block in range(8)]

        def many(seed: int) -> bool:
            return all(
                run(
                    "reduce",
                    values,
                    8,
                    256,
                    grid=(8, 1, 1),
                    threads=256,
                    shared_bytes=1024,
                    workers=2,
                    seed=seed,
                )
                == expected
                for _ in range(20)
            )

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(many, range(4)))


class TestSchedules:
    def order(self, run: Runner, seed: int) -> tuple[list[int], list[int]]:
        result = run("order", [], 2 * 96 + 1, 96, threads=96, seed=seed)
        return result[:96], result[96:192]

    def test_seed_0_ascends_and_seed_1_descends(self, run: Runner) -> None:
        assert self.order(run, 0) == (list(range(96)), list(range(96)))
        assert self.order(run, 1) == (list(range(95, -1, -1)), list(range(95, -1, -1)))

    def test_other_seeds_permute_each_phase_and_repeat(self, run: Runner) -> None:
        first, second = self.order(run, 7)
        assert sorted(first) == sorted(second) == list(range(96))
        assert first != second
        assert self.order(run, 7) == (first, second)
        assert self.order(run, 8) != (first, second)

    def test_a_missing_barrier_gives_a_wrong_value(self, run: Runner) -> None:
        values = distinct(64)
        right = [values[(t + 1) % 64] + values[t - 1] for t in range(64)]
        for seed in (0, 1, 7):
            assert run("neighbour", values, 64, 64, threads=64, shared_bytes=256, seed=seed) != right

    def test_shared_memory_is_poisoned_differently_per_block_and_seed(self, run: Runner) -> None:
        def poison(seed: int) -> list[int]:
            return run("poison", [], 8 * 64, 64, grid=(8, 1, 1), threads=64, shared_bytes=256, seed=seed)

        first = poison(0)
        assert 0 not in first
        assert len(set(first)) > 3
        assert poison(0) == first
        assert poison(1) != first


class TestTeams:
    @pytest.mark.parametrize("seed", [0, 1, 7])
    def test_meet_without_waiting_for_each_other(self, run: Runner, seed: int) -> None:
        values = distinct(96)
        sums = run("teams", values, 3, 32, threads=96, shared_bytes=384, seed=seed)
        assert sums == [sum(values[first : first + 32]) for first in (0, 32, 64)]

    @pytest.mark.parametrize(
        ("kernel", "part"),
        [
            ("team_divided", "divergent barrier in block (0,0,0): "),
            ("team_left", ": 31 of 96 threads wait at line "),
            ("other_team", "line 7, thread "),
        ],
    )
    def test_that_diverge_are_reported(self, run: Runner, kernel: str, part: str) -> None:
        with pytest.raises(LaunchError) as failure:
            run(kernel, [], 3, 32, threads=96)
        assert part in str(failure.value)


class TestDivergence:
    @pytest.mark.parametrize("seed", [0, 1, 7])
    @pytest.mark.parametrize(
        ("kernel", "parts"),
        [
            (
                "early_return",
                ["divergent barrier in block (", ": 32 of 64 threads wait at line ", ", 32 have returned"],
            ),
            (
                "two_lines",
                ["divergent barrier in block (", ": 16 of 64 threads wait at line ", ", 48 wait at line "],
            ),
            (
                "lane_missing",
                ["divergent warp exchange in block (", ", warp 1: 31 of 32 lanes wait at line ", "1 have"],
            ),
            (
                "lane_at_barrier",
                ["divergent warp exchange in block (", ", warp 1: 31 of 32 lanes wait", "1 wait at"],
            ),
            (
                "two_sizes",
                ["divergent warp exchange", "to exchange 8 bytes, 16 wait at line 7 to exchange 4 bytes"],
            ),
            ("too_wide", ["warp exchange of 65 bytes at line 7; a lane deposits 1 to 64 bytes"]),
        ],
    )
    def test_is_reported(self, run: Runner, kernel: str, parts: list[str], seed: int) -> None:
        with pytest.raises(LaunchError) as failure:
            run(kernel, [0] * 64, 64, 64, grid=(6, 1, 1), threads=64, workers=2, seed=seed)
        for part in parts:
            assert part in str(failure.value)

    def test_the_next_launch_is_unharmed(self, run: Runner) -> None:
        for _ in range(3):
            with pytest.raises(LaunchError, match="divergent barrier in block"):
                run("early_return", [], 1, 64, grid=(4, 1, 1), threads=64)
            assert run("reduce", [1] * 64, 1, 64, threads=64, shared_bytes=256) == [64]

    def test_names_the_line_and_the_block(self, run: Runner) -> None:
        line = "".join([PRELUDE, REDUCE, WARP, INDICES, DIVERGENT]).split("KERNEL(early_return)")[0].count("\n") + 3
        with pytest.raises(LaunchError) as failure:
            run("early_return", [], 1, 64, grid=(2, 3, 4), threads=64, seed=1)  # it starts with the last block
        assert str(failure.value) == (
            f"divergent barrier in block (1,2,3): 32 of 64 threads wait at line {line}, 32 have returned"
        )


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"threads": 0}, "0 threads per block; a block has 1 to 1024"),
            ({"threads": 1025}, "1025 threads per block"),
            ({"warp_size": 16}, "warp size 16; it is 32 or 64"),
            ({"grid": (1, 0, 1)}, "the grid is 0 along axis 1"),
            ({"shared_bytes": 2**31}, "the CPU device has 1 GiB"),
            ({"cluster": 0}, "clusters of 0 blocks in a grid of 1"),
            ({"cluster": 2}, "clusters of 2 blocks in a grid of 1; they have 1 to 16 blocks and divide the grid"),
            ({"cluster": 2, "grid": (2, 1, 1), "threads": 33}, "its blocks are whole warps"),
            ({"cluster": 8, "grid": (8, 1, 1), "threads": 1024}, "it has at most 4096 threads"),
        ],
    )
    def test_of_impossible_launches(self, run: Runner, change: dict[str, Any], message: str) -> None:
        with pytest.raises(LaunchError, match=message):
            run("indices", [], 1, 1, **{"threads": 32, **change})

    @pytest.mark.parametrize("change", [{"threads": -1}, {"grid": (1, -1, 5)}, {"seed": 2**32}])
    def test_of_numbers_that_c_would_wrap(self, run: Runner, change: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="unsigned"):
            run("indices", [], 1, 1, **{"threads": 32, **change})

    def test_of_a_compiler_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "no-such-compiler")
        with pytest.raises(CompileError, match=r"CXX is 'no-such-compiler'.*apt-get install"):
            cpu_runtime.find_compiler()
        monkeypatch.delenv("CXX")
        monkeypatch.setenv("PATH", "/nonexistent")
        with pytest.raises(CompileError, match=r"no C\+\+ compiler.*install g\+\+ .* or set CXX"):
            cpu_runtime.find_compiler()

    @pytest.mark.parametrize(
        ("body", "says"),
        [
            ("exit 0", r"compiler does not tell its version .* gives ''.*; set CXX"),
            ("echo $*", r"-dumpversion gives '-dumpfullversion -dumpversion'"),
            ("exit 3", r"compiler --version"),
            ("case $1 in --version) echo g++;; -dump*) echo 9.9.9;; esac", "wrote nothing: it is no compiler"),
        ],
        ids=["does nothing", "says what it hears", "fails", "writes nothing"],
    )
    def test_of_a_program_that_is_no_compiler(
        self, body: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compiler = tmp_path / "compiler"
        compiler.write_text(f"#!/bin/sh\n{body}\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        with pytest.raises(CompileError, match=says):
            cpu_runtime.build({"kernel.cpp": "int ok;\n"}, ["-c"], ".o", tmp_path / "cache")
        assert not list(tmp_path.glob("cache/*"))

    @pytest.mark.parametrize(
        "dying",
        [
            "kill -9 $$",
            "kill $$",
            "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
            "echo 'clang: error: unable to execute command: Killed' >&2; exit 254",
        ],
        ids=["SIGKILL", "SIGTERM", "of GCC", "of clang"],
    )
    def test_of_a_compiler_that_is_killed_says_nothing_of_the_source(
        self, dying: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compiler = tmp_path / "compiler"
        compiler.write_text(f"#!/bin/sh\ncase $1 in --version) echo g++;; -dump*) echo 9.9.9;; *) {dying};; esac\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        with pytest.raises(CompileError, match="compiler was killed: memory may be short") as refused:
            cpu_runtime.build({"kernel.cpp": "int ok;\n"}, ["-c"], ".o", tmp_path / "cache")
        assert isinstance(refused.value, CompilerKilled)

    def test_of_a_compiler_that_cannot_be_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compiler = tmp_path / "compiler"
        compiler.write_bytes(b"\x7fELF and no more")
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        with pytest.raises(CompileError, match=r"cannot run .*compiler: .*Exec format error.*that is installed"):
            cpu_runtime.find_compiler()

    def test_of_source_that_does_not_compile_shows_the_line(self, tmp_path: Path) -> None:
        with pytest.raises(CompileError, match=r"kernel\.cpp:2:"):
            cpu_runtime.build({"kernel.cpp": "int ok;\nint wrong = nothing;\n"}, ["-c"], ".o", tmp_path)
        assert not list(tmp_path.iterdir())


def test_the_cache_is_hit_and_racing_builds_agree(tmp_path: Path) -> None:
    def build(_: int) -> Path:
        return cpu_runtime.build({"kernel.cpp": "int answer = 42;\n"}, ["-c"], ".o", tmp_path)

    with ThreadPoolExecutor(4) as pool:
        [path] = set(pool.map(build, range(4)))
    before = path.stat().st_mtime_ns
    assert build(0) == path
    assert path.stat().st_mtime_ns == before
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, f"{path.name}.sha256"}


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    "damage",
    [halve, flip, Path.unlink, lambda path: path.with_name(f"{path.name}.sha256").write_text("")],
    ids=["half of it", "one bit", "gone", "no digest"],
)
def test_a_damaged_runtime_is_built_again(
    damage: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading a truncated library would end this process with SIGBUS. A small file stands for the runtime, and is only
    read."""
    small = {"cpu_runtime.cpp": 'extern "C" int qconv_cpu_launch() { return 42; }\n'}
    loaded: list[bytes] = []

    def load(path: str, mode: int) -> Any:
        loaded.append(Path(path).read_bytes())
        return SimpleNamespace(qconv_cpu_launch=SimpleNamespace())

    monkeypatch.setattr(cpu_runtime, "_with_headers", lambda _: small)
    monkeypatch.setattr(ctypes, "CDLL", load)
    for _ in range(2):
        monkeypatch.setattr(cpu_runtime, "_runtime", None)
        cpu_runtime.runtime_library(tmp_path)
        [path] = tmp_path.glob("runtime-*.so")
        damage(path)
    assert loaded[0] == loaded[1]
    assert loaded[0].startswith(b"\x7fELF")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_runtime_that_cannot_be_loaded_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc compiles C++ but does not link its library: every compiler would later find that broken binary. A small file
    stands for the runtime."""
    monkeypatch.setattr(
        cpu_runtime, "_with_headers", lambda _: {"cpu_runtime.cpp": "int* made() { return new int; }\n"}
    )
    monkeypatch.setenv("CXX", "gcc")
    says = ""
    try:
        cpu_runtime.build_runtime(tmp_path)
    except CompileError as refused:
        says = str(refused)
    assert list(tmp_path.iterdir()) == []
    assert "undefined reference to" in says


def test_a_runtime_that_others_could_have_written_is_refused(tmp_path: Path) -> None:
    files = {"kernel.cpp": "int answer = 42;\n"}
    path = cpu_runtime.build(files, ["-c"], ".o", tmp_path)
    path.chmod(0o702)
    with pytest.raises(CacheError, match=rf"{path} has mode 0702: others .* chmod go-w {path}"):
        cpu_runtime.build(files, ["-c"], ".o", tmp_path)


@pytest.mark.slow
def test_the_portable_context_switch(cache: Path) -> None:
    """CPUs without an assembly switch use ucontext; the whole program is one source here."""
    folder = Path(cpu_runtime.__file__).parent
    files = {path.name: path.read_text() for path in folder.glob("cpu_*.[ch]*")}
    main = """
int main() {
    int input[512], output[2], sums[2] = {0, 0};
    for (int i = 0; i < 512; ++i) sums[i / 256] += input[i] = i * i;
    Arguments arguments = {input, output, 256};
    const qconv_cpu_grid grid = {reduce_entry, &arguments, nullptr, 1024, {2, 1, 1}, 256, 1, 32, 2, 7};
    char message[100] = "";
    if (qconv_cpu_launch(&grid, message, 100)) return 1;
    return output[0] != sums[0] || output[1] != sums[1];
}
"""
    text = '#include "cpu_runtime.cpp"\n' + PRELUDE + REDUCE + main
    flags = ["-O0", "-std=c++17", "-pthread", "-DQCONV_CPU_UCONTEXT"]
    program = cpu_runtime.build({"main.cpp": text, **files}, flags, "", cache)
    assert subprocess.run([program], check=False).returncode == 0
