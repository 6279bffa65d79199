"""The memory operations of the CPU prelude: asynchronous copies, ldmatrix and atomics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cpu_kernels import Runner, distinct, line_of, sanitized, unpack
from matrix_kernels import with_prelude

from qconv.device import cpu_runtime
from qconv.device.cpu import runtime_cache
from qconv.errors import LaunchError

TEXT = with_prelude(
    """
// `width` words, one a thread; what is in shared memory before the wait, and after it.
KERNEL(one_group) {
    int* shared = (int*)qconv_cpu_shared();
    tile::Copies copies;
    copies.copy<4>(shared + t, input + t, true);
    output[t] = shared[t];
    copies.commit();
    copies.wait<0>();
    output[width + t] = shared[t];
}
// Five groups of 16 bytes, one after the other in the same two places; one is outstanding at a time.
KERNEL(groups) {
    tile::Words<4>* shared = (tile::Words<4>*)qconv_cpu_shared() + 2 * t;
    const tile::Words<4>* from = (const tile::Words<4>*)input + 5 * t;
    tile::Copies copies;
    copies.copy<16>(shared, from, true);
    copies.commit();
    for (int i = 0; i < 5; ++i) {
        if (i < 4) copies.copy<16>(shared + (i + 1) % 2, from + i + 1, true);
        copies.commit();
        copies.wait<1>();
        ((tile::Words<4>*)output)[5 * t + i] = shared[i % 2];
    }
}
// The wait is for the groups before the latest; what is not committed is in no group at all.
KERNEL(outstanding) {
    int* shared = (int*)qconv_cpu_shared() + 3 * t;
    tile::Copies copies;
    copies.copy<4>(shared, input + t, true);
    copies.commit();
    copies.copy<4>(shared + 1, input + t, true);
    copies.commit();
    copies.wait<1>();
    copies.copy<4>(shared + 2, input + t, true);
    output[4 * t] = shared[0] == input[t];
    output[4 * t + 1] = shared[1] == input[t];
    copies.wait<0>();
    output[4 * t + 2] = shared[1] == input[t];
    output[4 * t + 3] = shared[2] == input[t];
}
KERNEL(absent) {
    tile::Words<2>* shared = (tile::Words<2>*)qconv_cpu_shared() + t;
    tile::Copies copies;
    copies.copy<8>(shared, t % 2 ? (const void*)input : nullptr, t % 2 == 1);
    copies.commit();
    copies.wait<0>();
    output[t] = (int)(shared->word[0] + shared->word[1]);
}
// Every thread reads what its neighbour copied.
KERNEL(never_waits) {
    int* shared = (int*)qconv_cpu_shared();
    tile::Copies copies;
    copies.copy<4>(shared + t, input + t, true);
    copies.commit();
    tile::barrier();
    output[t] = shared[(t + 1) % width];
}
KERNEL(never_meets) {
    int* shared = (int*)qconv_cpu_shared();
    tile::Copies copies;
    copies.copy<4>(shared + t, input + t, true);
    copies.commit();
    copies.wait<0>();
    output[t] = shared[(t + 32) % width];
}
KERNEL(waits_and_meets) {
    int* shared = (int*)qconv_cpu_shared();
    tile::Copies copies;
    copies.copy<4>(shared + t, input + t, true);
    copies.commit();
    copies.wait<0>();
    tile::barrier();
    output[t] = shared[(t + 32) % width];
}
KERNEL(too_many) {
    tile::Copies copies;
    for (int i = 0; i < width; ++i) {
        copies.copy<4>((int*)qconv_cpu_shared() + t, input, true);
        copies.commit();
    }
    copies.wait<0>();
}
KERNEL(crooked_to) { tile::Copies().copy<8>((int*)qconv_cpu_shared() + 1, input, true); }
KERNEL(crooked_from) { tile::Copies().copy<8>((int*)qconv_cpu_shared(), input + 1, true); }

// An mbarrier, then what comes: `width` words. Every thread reads what one of them asked for.
static tile::Mbarrier& mbarrier() { return *(tile::Mbarrier*)qconv_cpu_shared(); }
static int* bulk() { return (int*)qconv_cpu_shared() + 8; }
KERNEL(fetched) {
    if (t == 0) mbarrier().fetch(bulk(), input, 4 * width);
    tile::barrier();
    output[t] = bulk()[t];
    tile::barrier();
    mbarrier().wait_for_phase(0);
    output[width + t] = bulk()[(t + 32) % width];
}
KERNEL(fetched_without_a_barrier) {
    if (t == 0) mbarrier().fetch(bulk(), input, 4 * width);
    mbarrier().wait_for_phase(0);
    output[t] = bulk()[t];
}
KERNEL(fetched_and_read) {
    if (t == 0) mbarrier().fetch(bulk(), input, 4 * width);
    tile::barrier();
    mbarrier().wait_for_phase(0);
    output[t] = bulk()[t];
}
KERNEL(fetched_by_nobody) { mbarrier().wait_for_phase(0); }
KERNEL(fetched_in_part) { mbarrier().fetch(bulk(), input, 4 * width); }

// Rows of 4 words in shared memory, `width` words apart. Matrix i of four is rows 8 * i to 8 * i + 7.
template <int COUNT> static void matrices(const int* input, int* output, int width, int t) {
    int* shared = (int*)qconv_cpu_shared();
    for (int i = t; i < 8 * COUNT * width; i += 32) shared[i] = input[i];
    tile::barrier();
    unsigned registers[COUNT];
    tile::load_matrices<COUNT>(shared + tile::lane() % (8 * COUNT) * width, registers);
    for (int i = 0; i < COUNT; ++i) output[COUNT * t + i] = (int)registers[i];
}
KERNEL(matrices_1) { matrices<1>(input, output, width, t); }
KERNEL(matrices_2) { matrices<2>(input, output, width, t); }
KERNEL(matrices_4) { matrices<4>(input, output, width, t); }
KERNEL(crooked_row) {
    unsigned registers[2];
    tile::load_matrices((char*)qconv_cpu_shared() + 16 * t + (t == width ? 4 : 0), registers);
}
KERNEL(warps) { output[t] = 1000 * tile::warp() + tile::lane(); }

// The blocks add up their inputs in output[2...]; the last to arrive takes the sums. output[0] counts arrivals.
template <bool PUBLISHES> static void add_up(const int* input, int* output, int width, int t) {
    int* sums = output + 2;
    int& order = *(int*)qconv_cpu_shared();
    tile::accumulate(&sums[t], input[qconv_cpu_block(0) * width + t]);
    if (PUBLISHES || t != 5) tile::publish();
    tile::barrier();
    if (t == 0) order = tile::arrive(&output[0], 1);
    tile::barrier();
    if (order != 7) return;
    output[2 + width + t] = tile::take(&sums[t]);
    if (t == 0) output[1] = tile::take(&output[0]);
}
KERNEL(last_block) { add_up<true>(input, output, width, t); }
KERNEL(not_published) { add_up<false>(input, output, width, t); }
// One thread of each block writes without an atomic what the last block reads.
KERNEL(publish) {
    const int block = qconv_cpu_block(0);
    output[2 + block] = input[block];
    if (tile::arrive(&output[0], 1) != 7) return;
    for (int i = 0; i < 8; ++i) output[1] += output[2 + i];
}
""",
    WARP_SIZE=32,
    COPIES_IN_FLIGHT=5,
)


@pytest.fixture(scope="module")
def cache() -> Path:
    return runtime_cache()


@pytest.fixture(scope="module")
def run(cache: Path) -> Runner:
    return Runner(cache, TEXT)


DEFERRED, AT_ONCE = (0, 8), (1, 7)


class TestCopies:
    @pytest.mark.parametrize("seed", [*DEFERRED, *AT_ONCE])
    def test_are_there_before_the_wait_or_only_behind_it(self, run: Runner, seed: int) -> None:
        values = distinct(64)
        result = run("one_group", values, 128, 64, threads=64, shared_bytes=256, seed=seed)
        assert result[64:] == values
        assert result[:64] == values if seed in AT_ONCE else len(set(result[:64])) == 1  # the poison

    @pytest.mark.parametrize("seed", [*DEFERRED, *AT_ONCE])
    def test_go_through_a_ring_of_groups(self, run: Runner, seed: int) -> None:
        values = distinct(32 * 20)
        assert run("groups", values, 32 * 20, 0, threads=32, shared_bytes=32 * 32, seed=seed) == values

    @pytest.mark.parametrize("seed", [*DEFERRED, *AT_ONCE])
    def test_are_outstanding_until_they_are_waited_for(self, run: Runner, seed: int) -> None:
        result = run("outstanding", distinct(32), 128, 0, threads=32, shared_bytes=12 * 32, seed=seed)
        assert result == ([1, 1, 1, 1] if seed in AT_ONCE else [1, 0, 1, 0]) * 32

    @pytest.mark.parametrize("seed", [0, 1])
    def test_are_zeros_where_nothing_exists(self, run: Runner, seed: int) -> None:
        assert run("absent", [5, 7], 32, 0, threads=32, shared_bytes=256, seed=seed) == [0, 12] * 16

    def test_without_a_wait_are_seen_missing(self, run: Runner) -> None:
        values = distinct(64)
        right = values[1:] + values[:1]
        results = [run("never_waits", values, 64, 64, threads=64, shared_bytes=256, seed=seed) for seed in (0, 1)]
        assert results[0] != right
        assert results[1] == right  # the reason to test both

    @pytest.mark.parametrize("seed", [0, 1])
    def test_without_a_barrier_are_a_race(self, cache: Path, seed: int) -> None:
        options: dict[str, Any] = {"shared_bytes": 256, "workers": 1, "seed": seed}
        report = sanitized(cache, "never_meets", TEXT, "thread", distinct(64), 64, 64, **options)
        assert report.kind == "data race"
        assert line_of(TEXT, "output[t] = shared[(t + 32) % width];") in report.text

    @pytest.mark.parametrize("sanitizer", ["address", "thread"])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_under_the_sanitizers(self, cache: Path, sanitizer: cpu_runtime.Sanitizer, seed: int) -> None:
        values = distinct(64)
        report = sanitized(
            cache, "waits_and_meets", TEXT, sanitizer, values, 64, 64, shared_bytes=256, workers=1, seed=seed
        )
        assert (report.kind, report.text) == ("clean", "")
        assert unpack(report.outputs[0]) == values[32:] + values[:32]

    @pytest.mark.parametrize("seed", [0, 1])
    def test_past_the_end_are_found(self, cache: Path, seed: int) -> None:
        report = sanitized(cache, "waits_and_meets", TEXT, "address", [0] * 63, 64, 64, shared_bytes=256, seed=seed)
        assert report.kind == "heap-buffer-overflow"

    def test_have_to_fit_in_the_queue(self, run: Runner) -> None:
        run("too_many", [0], 1, 5, threads=32, shared_bytes=128)
        with pytest.raises(LaunchError, match=r"line \d+, thread 0 of .*more .* copies than COPIES_IN_FLIGHT"):
            run("too_many", [0], 1, 6, threads=32, shared_bytes=128)

    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("end", ["to", "from"])
    def test_have_aligned_ends(self, run: Runner, end: str, seed: int) -> None:
        with pytest.raises(LaunchError, match=f"copy {end} an address that its size does not divide"):
            run(f"crooked_{end}", [0] * 4, 1, 0, threads=32, shared_bytes=128, seed=seed)


class TestMbarrier:
    @pytest.mark.parametrize("seed", [*DEFERRED, *AT_ONCE])
    def test_bytes_are_there_before_the_wait_or_only_behind_it(self, run: Runner, seed: int) -> None:
        values = distinct(64)
        result = run("fetched", values, 128, 64, threads=64, shared_bytes=32 + 256, seed=seed)
        assert result[64:] == values[32:] + values[:32]
        assert result[:64] == values if seed in AT_ONCE else len(set(result[:64])) == 1  # the poison

    def test_nobody_waits_for_what_was_not_asked_for(self, run: Runner) -> None:
        with pytest.raises(LaunchError, match="nobody has initialised an mbarrier there"):
            run("fetched_by_nobody", [0], 1, 0, threads=32, shared_bytes=64)

    @pytest.mark.parametrize("seed", [0, 1])
    def test_without_a_barrier_before_the_wait_is_a_race(self, cache: Path, seed: int) -> None:
        options: dict[str, Any] = {"shared_bytes": 32 + 256, "workers": 1, "seed": seed}
        report = sanitized(cache, "fetched_without_a_barrier", TEXT, "thread", distinct(64), 64, 64, **options)
        assert report.kind == "data race"

    @pytest.mark.parametrize("sanitizer", ["address", "thread"])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_under_the_sanitizers(self, cache: Path, sanitizer: cpu_runtime.Sanitizer, seed: int) -> None:
        values = distinct(64)
        options: dict[str, Any] = {"shared_bytes": 32 + 256, "workers": 1, "seed": seed}
        report = sanitized(cache, "fetched_and_read", TEXT, sanitizer, values, 64, 64, **options)
        assert (report.kind, report.text) == ("clean", "")
        assert unpack(report.outputs[0]) == values

    @pytest.mark.parametrize("seed", [0, 1])
    def test_past_the_end_is_found(self, cache: Path, seed: int) -> None:
        options: dict[str, Any] = {"shared_bytes": 32 + 256, "seed": seed}
        report = sanitized(cache, "fetched_and_read", TEXT, "address", [0] * 63, 64, 64, **options)
        assert report.kind == "heap-buffer-overflow"

    @pytest.mark.parametrize("seed", [0, 1])
    def test_of_sixteens_only(self, run: Runner, seed: int) -> None:
        with pytest.raises(LaunchError, match="whose addresses or size 16 does not divide"):
            run("fetched_in_part", [0] * 4, 1, 3, threads=32, shared_bytes=64, seed=seed)


class TestMatrices:
    @pytest.mark.parametrize("seed", [0, 7])
    @pytest.mark.parametrize("width", [4, 12])
    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_give_each_lane_a_word_of_each(self, run: Runner, count: int, width: int, seed: int) -> None:
        values = distinct(8 * count * width)
        shared: dict[str, Any] = {"shared_bytes": 4 * len(values), "seed": seed}
        result = run(f"matrices_{count}", values, 32 * count, width, threads=32, **shared)
        assert result == [
            values[(8 * matrix + lane // 4) * width + lane % 4] for lane in range(32) for matrix in range(count)
        ]

    def test_have_aligned_rows(self, run: Runner) -> None:
        with pytest.raises(LaunchError, match=r"thread 9 of block .*a row that is not 16-byte aligned"):
            run("crooked_row", [], 1, 9, threads=32, shared_bytes=1024)
        run("crooked_row", [], 1, 16, threads=32, shared_bytes=1024)  # only 16 rows are read

    @pytest.mark.parametrize("sanitizer", ["address", "thread"])
    def test_under_the_sanitizers(self, cache: Path, sanitizer: cpu_runtime.Sanitizer) -> None:
        options: dict[str, Any] = {"threads": 32, "shared_bytes": 4 * 32 * 4}
        report = sanitized(cache, "matrices_4", TEXT, sanitizer, distinct(128), 128, 4, **options)
        assert (report.kind, report.text) == ("clean", "")

    def test_lanes_and_warps_are_numbered(self, run: Runner) -> None:
        assert run("warps", [], 96, 0, threads=96) == [1000 * (t // 32) + t % 32 for t in range(96)]


class TestAtomics:
    @pytest.mark.parametrize("seed", [0, 1, 7])
    @pytest.mark.parametrize("workers", [1, 3])
    def test_the_last_block_to_arrive_takes_the_sums(self, run: Runner, workers: int, seed: int) -> None:
        values = distinct(8 * 64)
        options: dict[str, Any] = {"threads": 64, "shared_bytes": 4, "workers": workers, "seed": seed}
        result = run("last_block", values, 2 + 128, 64, grid=(8, 1, 1), **options)
        assert result == [0, 8] + [0] * 64 + [sum(values[t::64]) for t in range(64)]

    @pytest.mark.parametrize("seed", [*DEFERRED, *AT_ONCE])
    def test_what_a_thread_does_not_publish_may_come_too_late(self, run: Runner, seed: int) -> None:
        values = distinct(8 * 64)
        options: dict[str, Any] = {"threads": 64, "shared_bytes": 4, "workers": 1, "seed": seed}
        result = run("not_published", values, 2 + 128, 64, grid=(8, 1, 1), **options)
        want = [sum(values[t::64]) for t in range(64)]
        assert [t for t in range(64) if result[2 + 64 + t] != want[t]] == ([5] if seed in DEFERRED else [])

    @pytest.mark.parametrize("workers", [1, 3])
    def test_under_the_thread_sanitizer(self, cache: Path, workers: int) -> None:
        values = distinct(8 * 64)
        options: dict[str, Any] = {"grid": (8, 1, 1), "shared_bytes": 4, "workers": workers}
        report = sanitized(cache, "last_block", TEXT, "thread", values, 2 + 128, 64, **options)
        assert (report.kind, report.text) == ("clean", "")

    def test_arriving_publishes_what_was_written(self, cache: Path) -> None:
        values = distinct(8)
        report = sanitized(cache, "publish", TEXT, "thread", values, 10, 0, grid=(8, 1, 1), threads=1, workers=3)
        assert (report.kind, report.text) == ("clean", "")
        assert unpack(report.outputs[0]) == [8, sum(values), *values]
