"""Clusters on the CPU device: their barrier, data sent between blocks, the async proxy's view, and overlapping
launches."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from cpu_kernels import Packed, Runner, distinct, sanitized, unpack
from matrix_kernels import with_prelude

from qconv.device import cpu_runtime
from qconv.device.cpu import runtime_cache
from qconv.errors import LaunchError

# Two blocks of `width` threads. Each has words in one of two places, and receives the other's words in the other place.
TEXT = with_prelude(
    """
struct Mine { alignas(16) tile::Mbarrier mbarrier; alignas(16) int words[2][64]; };
static int rank() { return tile::block_x() % 2; }
template <bool FENCES, bool WAITS, bool WRITES>
static void swap(const int* input, int* output, int width, int t, int expected) {
    Mine& mine = tile::shared_memory<Mine>();
    int* const own = mine.words[rank()];
    if (t == 0) mine.mbarrier.expect(expected);
    tile::arrive_at_cluster();
    own[t] = input[tile::block_x() * width + t];
    if (FENCES || t != 5) tile::fence_proxy_async();
    tile::barrier();
    if (WAITS) tile::wait_for_cluster();
    if (t == 0) tile::send_bulk(own, 4 * width, mine.mbarrier, 1 - rank());
    tile::barrier();
    if (WRITES) own[t] = -1;
    if (WRITES) tile::fence_proxy_async();
    mine.mbarrier.wait_for_phase(0);
    tile::arrive_at_cluster();
    output[tile::block_x() * width + t] = mine.words[1 - rank()][t];
    tile::wait_for_cluster();
}
KERNEL(swaps) { swap<true, true, false>(input, output, width, t, 4 * width); }
KERNEL(a_thread_does_not_fence) { swap<false, true, false>(input, output, width, t, 4 * width); }
KERNEL(nobody_waits) { swap<true, false, false>(input, output, width, t, 4 * width); }
KERNEL(too_few) { swap<true, true, false>(input, output, width, t, 4 * width - 16); }
KERNEL(too_many) { swap<true, true, false>(input, output, width, t, 4 * width + 16); }
KERNEL(writes_over) { swap<true, true, true>(input, output, width, t, 4 * width); }

// Who fences for whom: what thread 1 wrote, thread 0 does not show.
KERNEL(fenced_by_another) {
    Mine& mine = tile::shared_memory<Mine>();
    mine.words[0][t] = input[t];
    tile::barrier();
    if (t == 0) tile::fence_proxy_async();
    tile::barrier();
    output[t] = *(const int*)qconv_cpu_async_proxy_view(&mine.words[0][t]);
}
KERNEL(leaves) {
    Mine& mine = tile::shared_memory<Mine>();
    if (t == 0) mine.mbarrier.expect(4 * width);
    tile::arrive_at_cluster();
    tile::wait_for_cluster();
    if (rank() == 0 && t == 0) tile::send_bulk(mine.words, 4 * width, mine.mbarrier, 1);
    if (rank() == 1) mine.mbarrier.wait_for_phase(0);
}
KERNEL(one_too_many) {  // the second of two copies
    Mine& mine = tile::shared_memory<Mine>();
    if (t == 0) mine.mbarrier.expect(16);
    for (int i = 0; i < 2; ++i)
        if (t == 0) tile::send_bulk(mine.words[i], 16, mine.mbarrier, rank());
    tile::barrier();
    mine.mbarrier.wait_for_phase(0);
}
KERNEL(arrives_twice) {
    tile::arrive_at_cluster();
    tile::arrive_at_cluster();
}
KERNEL(names_the_place_of_another) {  // whose shared memory is not this block's
    void* const there = qconv_cpu_in_block(&tile::shared_memory<Mine>(), 1 - rank(), __LINE__);
    qconv_cpu_in_block(there, 1 - rank(), __LINE__);
}
KERNEL(has_not_arrived) { tile::wait_for_cluster(); }
KERNEL(one_block_arrives) {
    if (rank() == 0) return;
    tile::arrive_at_cluster();
    tile::wait_for_cluster();
}
KERNEL(waits_for_what_is_past) {
    Mine& mine = tile::shared_memory<Mine>();
    for (int i = 0; i < 2; ++i) i == 0 ? mine.mbarrier.expect(0) : mine.mbarrier.expect_next(0);
    mine.mbarrier.wait_for_phase(width);
}

// Each launch adds to what the one before has left.
KERNEL(adds) {
    const int early = output[t];
    if (width != 2 || t != 5) tile::wait_on_dependency();
    output[t] = (width != 0 ? early : output[t]) * 2 + 1;
}
""",
    {"async_proxy"},
)
BLOCKS = 6
LATE, EARLY = (0, 2, 8), (1, 3, 7)
OPTIONS: dict[str, Any] = {"grid": (BLOCKS, 1, 1), "threads": 64, "cluster": 2, "shared_bytes": 16 + 512}


@pytest.fixture(scope="module")
def cache() -> Path:
    return runtime_cache()


@pytest.fixture(scope="module")
def run(cache: Path) -> Runner:
    return Runner(cache, TEXT)


VALUES = distinct(64 * BLOCKS)
SWAPPED = [value for block in range(BLOCKS) for value in VALUES[64 * (block ^ 1) :][:64]]


def result(run: Runner, kernel: str, seed: int) -> list[int]:
    return run(kernel, VALUES, 64 * BLOCKS, 64, **OPTIONS, seed=seed)


@pytest.mark.parametrize("seed", [*LATE, *EARLY])
def test_blocks_send_each_other_what_they_have(run: Runner, seed: int) -> None:
    assert result(run, "swaps", seed) == SWAPPED


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("seed", [2, 3])
def test_the_sanitizers_find_nothing(cache: Path, sanitizer: cpu_runtime.Sanitizer, seed: int) -> None:
    report = sanitized(cache, "swaps", TEXT, sanitizer, VALUES, 64 * BLOCKS, 64, **OPTIONS, seed=seed)
    assert (report.kind, report.text) == ("clean", "")
    assert unpack(report.outputs[0]) == SWAPPED


def test_the_thread_sanitizer_sees_what_a_copy_reads(cache: Path) -> None:
    for seed in (2, 3):
        report = sanitized(cache, "writes_over", TEXT, "thread", VALUES, 64 * BLOCKS, 64, **OPTIONS, seed=seed)
        assert report.kind == "data race"
        assert "an asynchronous copy" in report.text


class TestTheAsyncProxy:
    @pytest.mark.parametrize("seed", [*LATE, *EARLY])
    def test_does_not_see_what_a_thread_wrote_before_its_fence(self, run: Runner, seed: int) -> None:
        found = result(run, "a_thread_does_not_fence", seed)
        wrong = [t % 64 for t in range(64 * BLOCKS) if found[t] != SWAPPED[t]]
        assert wrong == ([5] * BLOCKS if seed in LATE else [])

    @pytest.mark.parametrize("seed", [*LATE, *EARLY])
    def test_sees_what_the_thread_fenced_that_wrote_it(self, run: Runner, seed: int) -> None:
        values = distinct(64)
        found = run("fenced_by_another", values, 64, 64, threads=64, shared_bytes=16 + 512, seed=seed)
        assert [t for t in range(64) if found[t] == values[t]] == ([0] if seed in LATE else list(range(64)))

    @pytest.mark.parametrize("seed", [*LATE, *EARLY])
    def test_reads_as_late_as_it_may(self, run: Runner, seed: int) -> None:
        assert result(run, "writes_over", seed) == ([-1] * (64 * BLOCKS) if seed in LATE else SWAPPED)


@pytest.mark.parametrize(
    ("kernel", "seed", "says"),
    [
        ("nobody_waits", 0, "nobody has initialised an mbarrier there"),
        ("too_few", 0, "128 of 128 threads wait for bytes at line"),
        ("too_few", 1, "threads wait for bytes at line"),
        ("one_too_many", 0, "ends while bytes are on their way to or from its shared memory"),
        ("one_too_many", 1, "or came that it did not expect"),
        ("too_many", 0, "128 of 128 threads wait for bytes at line"),
        ("too_many", 1, "threads wait for bytes at line"),
        ("leaves", 0, "block (0,0,0) ends while bytes are on their way to or from its shared memory"),
        ("arrives_twice", 1, "a second arrival at the barrier of the cluster before a wait"),
        ("names_the_place_of_another", 1, "of the cluster has no such address in its shared memory"),
        ("has_not_arrived", 1, "a wait for the cluster without an arrival"),
        ("one_block_arrives", 1, "64 of 128 threads wait for the cluster at line"),
    ],
)
def test_what_a_cluster_does_wrong_is_reported(run: Runner, kernel: str, seed: int, says: str) -> None:
    with pytest.raises(LaunchError) as failure:
        result(run, kernel, seed)
    assert says in str(failure.value)


@pytest.mark.parametrize("phase", range(4))
def test_a_wait_is_for_this_phase_or_the_one_before(run: Runner, phase: int) -> None:
    """Two phases are complete. Parity cannot distinguish others, and a wait for the third would never end."""
    says = {0: "a wait for phase 0 of an mbarrier that has completed 2", 2: "1 of 1 threads wait for bytes"}
    says[3] = "a wait for phase 3 of an mbarrier that has completed 2"
    options: dict[str, Any] = {"threads": 1, "shared_bytes": 16 + 512}
    if phase not in says:
        run("waits_for_what_is_past", [], 1, phase, **options)
        return
    with pytest.raises(LaunchError) as failure:
        run("waits_for_what_is_past", [], 1, phase, **options)
    assert says[phase] in str(failure.value)


@pytest.mark.parametrize(
    ("seed", "reads_early", "want"),
    [(0, 0, [7] * 64), (1, 0, [7] * 64), (0, 1, [1] * 64), (1, 1, [7] * 64), (0, 2, [1] * 5 + [7] + [1] * 58)],
)
def test_a_launch_begins_before_the_one_in_front_of_it_has_done_anything(
    run: Runner, seed: int, reads_early: int, want: list[int]
) -> None:
    out = (ctypes.c_int * 64)()
    packed = Packed(0, ctypes.addressof(out), reads_early)
    entry = ctypes.cast(run.library["adds_entry"], ctypes.c_void_p).value
    assert entry is not None
    first, second, third = (
        cpu_runtime.launched_grid(entry, packed, (1, 1, 1), 64, 16 + 512, seed=seed) for _ in range(3)
    )
    second.before, third.before = ctypes.pointer(first), ctypes.pointer(second)
    cpu_runtime.run_grid(third)
    assert list(out) == want
