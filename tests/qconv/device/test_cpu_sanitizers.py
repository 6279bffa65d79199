"""The findings of the sanitizers in kernels on the CPU device, and no findings in correct kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpu_kernels import DIVERGENT, MISSING_BARRIER, PRELUDE, REDUCE, distinct, line_of, sanitized, unpack

from qconv.device import cpu_runtime
from qconv.device.cpu import runtime_cache
from qconv.device.cpu_runtime import Arguments, Pointer

WITH_BARRIER = MISSING_BARRIER.replace("// here should be a barrier", "barrier();")


@pytest.fixture(scope="module")
def cache() -> Path:
    return runtime_cache()


class TestSanitizersFindNothing:
    @pytest.mark.turns
    @pytest.mark.parametrize("sanitizer", ["address", "thread"])
    @pytest.mark.parametrize("seed", [0, 7])
    def test_in_a_reduction(self, cache: Path, sanitizer: cpu_runtime.Sanitizer, seed: int) -> None:
        values = distinct(8 * 64)
        report = sanitized(
            cache,
            "reduce",
            REDUCE,
            sanitizer,
            values,
            8,
            64,
            grid=(8, 1, 1),
            shared_bytes=256,
            workers=3,
            seed=seed,
        )
        assert (report.clean, report.kind, report.text) == (True, "clean", "")
        assert unpack(report.outputs[0]) == [sum(values[block * 64 :][:64]) for block in range(8)]

    @pytest.mark.parametrize("sanitizer", ["address", "thread"])
    def test_in_exchanges(self, cache: Path, sanitizer: cpu_runtime.Sanitizer) -> None:
        # Lanes pass values through their own memory, which others read after the exchange.
        text = """
KERNEL(through_memory) {
    int* values = (int*)qconv_cpu_shared();
    for (int turn = 0; turn < 3; ++turn) {
        values[t] = input[t] + turn;
        shuffle(t, 0);
        output[t] = values[t ^ 1];
        shuffle(t, 0);
    }
}
"""
        values = distinct(64)
        report = sanitized(cache, "through_memory", text, sanitizer, values, 64, 64, shared_bytes=256)
        assert (report.clean, report.text) == (True, "")
        assert unpack(report.outputs[0]) == [values[t ^ 1] + 2 for t in range(64)]


class TestThreadSanitizerFinds:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_missing_barrier(self, cache: Path, seed: int) -> None:
        report = sanitized(
            cache,
            "neighbour",
            MISSING_BARRIER,
            "thread",
            distinct(64),
            64,
            64,
            shared_bytes=256,
            workers=1,
            seed=seed,
        )
        assert (report.clean, report.kind) == (False, "data race")
        assert line_of(MISSING_BARRIER, "values[t] =") in report.text
        assert line_of(MISSING_BARRIER, "output[t] =") in report.text
        assert report.text.count("WARNING: ThreadSanitizer") == 1, "a race of each pair of threads is written down"
        clean = sanitized(cache, "neighbour", WITH_BARRIER, "thread", distinct(64), 64, 64, shared_bytes=256)
        assert clean.clean

    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_second_barrier_missing_in_a_loop(self, cache: Path, seed: int) -> None:
        text = """
KERNEL(two_phases) {
    int* values = (int*)qconv_cpu_shared();
    for (int turn = 0; turn < 2; ++turn) {
        values[t] = input[t] + turn;
        barrier();
        output[t] = values[(t + 32) % 64];
        // here should be another
    }
}
"""
        report = sanitized(cache, "two_phases", text, "thread", distinct(64), 64, 64, shared_bytes=256, seed=seed)
        assert report.kind == "data race"

    @pytest.mark.parametrize("workers", [1, 2])
    def test_blocks_that_write_the_same_place(self, cache: Path, workers: int) -> None:
        text = "KERNEL(overlap) { output[qconv_cpu_block(0) * 63 + t] = t; }\n"
        report = sanitized(cache, "overlap", text, "thread", [0], 4 * 64, 64, grid=(4, 1, 1), workers=workers)
        assert report.kind == "data race"
        assert line_of(text, "KERNEL(overlap)") in report.text


class TestAddressSanitizerFinds:
    @pytest.mark.turns
    @pytest.mark.parametrize(
        ("statement", "kind", "explanation"),
        [
            ("output[t + 1] = 1;", "heap-buffer-overflow", "WRITE of size 4"),
            ("output[t] = input[t + 1];", "heap-buffer-overflow", "READ of size 4"),
            ("output[t] = ((const char*)input)[4 * t + 4];", "heap-buffer-overflow", "READ of size 1"),
            ("((int*)qconv_cpu_shared())[t + 1] = 1;", "use-after-poison", "WRITE of size 4"),
            ("output[t] = ((int*)qconv_cpu_shared())[-1 - t];", "use-after-poison", "READ of size 4"),
            ("qconv_cpu_warp_exchange(input + t, 8, 7);", "heap-buffer-overflow", "READ of size 8"),
            (
                "struct S { int rows[8][8], rest[9]; }; ((S*)qconv_cpu_shared())->rows[t / 8][t % 9] = t;",
                "undefined behaviour",
                "index 8 out of bounds for type 'int [8]'",
            ),
            ("output[t] = 2147483647 - 62 + t;", "undefined behaviour", "signed integer overflow"),
            (
                "struct alignas(16) V { int word[4]; }; if (t < 1) *(V*)(output + 1) = V{};",
                "undefined behaviour",
                "misaligned address",
            ),
        ],
    )
    def test_a_planted_bug(self, cache: Path, statement: str, kind: str, explanation: str) -> None:
        text = f"KERNEL(planted) {{\n    {statement}\n}}\n"
        report = sanitized(cache, "planted", text, "address", [0] * 64, 64, 64, shared_bytes=256 + 36 * ("S*" in text))
        assert (report.clean, report.kind) == (False, kind)
        assert explanation in report.text
        assert line_of(text, statement) in report.text

    def test_a_stack_overflow(self, cache: Path) -> None:
        text = """
static int deep(int n) {
    volatile int page[1024] = {n};
    return n == 0 ? page[0] : deep(n - 1) + page[n % 1024];
}
KERNEL(overflow) { output[t] = deep(1000); }
"""
        assert sanitized(cache, "overflow", text, "address", [0], 64, 64).kind == "stack-overflow"


class TestHarness:
    def test_reports_divergence(self, cache: Path) -> None:
        report = sanitized(cache, "early_return", DIVERGENT, "address", [0], 1, 1, threads=64)
        assert (report.clean, report.kind, report.outputs) == (False, "runtime error", ())
        assert "32 of 64 threads wait at line" in report.text

    def test_reports_a_timeout(self, cache: Path) -> None:
        report = cpu_runtime.run_sanitized(
            PRELUDE + "KERNEL(forever) { while (true) *(volatile int*)output = 1; }",
            "forever",
            "address",
            arguments=Arguments(24, (Pointer(8, 0),)),
            buffers=[bytes(4)],
            grid=(1, 1, 1),
            threads=1,
            shared_bytes=0,
            cache=cache,
            timeout_s=0.5,
        )
        assert (report.clean, report.kind) == (False, "timeout")

    def test_refuses_a_job_that_contradicts_itself(self, cache: Path) -> None:
        with pytest.raises(ValueError, match="offset 20 is outside the struct"):
            cpu_runtime.run_sanitized(
                PRELUDE + REDUCE,
                "reduce",
                "address",
                arguments=Arguments(24, (Pointer(20, 0),)),
                buffers=[b""],
                grid=(1, 1, 1),
                threads=1,
                shared_bytes=0,
                cache=cache,
            )
