// The worker's operations for clusters and asynchronous copies: the cluster barrier, mbarriers and the copies
// that they count, and additions to device memory. Private to cpu_runtime.cpp.
#pragma once

#include <string>

#include "cpu_worker.h"

namespace {

inline void Worker::barrier(int line) {
    if (const char* const wrong = engines_.tensor_memory.arrive(current)) fail(wrong, line);
    meet(rank(), rank() * launch_->threads, launch_->threads, line);
    engines_.tensor_memory.synchronize(current);
}

inline void Worker::arrive_at_cluster(int line) {
    Thread& self = threads_[current];
    if (self.has_arrived) fail("a second arrival at the barrier of the cluster before a wait", line);
    self.has_arrived = true;
    self.cluster_phase = of_cluster_.phase;
    happens_before(arena_.meeting(2 * (kMaxBlocksOfCluster + kMaxTeamsOfCluster) + (self.cluster_phase & 1)));
    if (++of_cluster_.waiting < launch_->all_threads()) return;
    of_cluster_.waiting = 0;
    ++of_cluster_.phase;
    ready_those(State::kCluster, nullptr);
}

inline void Worker::wait_for_cluster(int line) {
    Thread& self = threads_[current];
    if (!self.has_arrived) fail("a wait for the cluster without an arrival", line);
    self.has_arrived = false;
    if (of_cluster_.phase == self.cluster_phase) {
        self.state = State::kCluster;
        self.line = line;
        suspend();
    }
    happens_after(arena_.meeting(2 * (kMaxBlocksOfCluster + kMaxTeamsOfCluster) + (self.cluster_phase & 1)));
}

inline void* Worker::in_block(const void* address, unsigned block, int line) {
    if (block >= launch_->cluster || shared().block_of(address) != static_cast<int>(rank()))
        fail("block " + std::to_string(block) + " of the cluster has no such address in its shared memory",
             line);
    return shared().of(block) + (static_cast<const char*>(address) - shared().of(rank()));
}

inline Mbarrier& Worker::mbarrier_at(const void* address, int line) {
    Mbarrier* const barrier = engines_.at(address);
    if (barrier == nullptr) fail("nobody has initialised an mbarrier there", line);
    observe_read(address, sizeof(uint64_t));
    return *barrier;
}

inline void Worker::wake(Mbarrier& barrier, unsigned phases_before) {
    if (barrier.phases == phases_before) return;
    barrier.waiting = 0;
    ready_those(State::kBytes, &barrier);
}

inline void Worker::init(void* mbarrier, unsigned arrivals, int line) {
    if (arrivals == 0 || arrivals >= 1u << 20) fail("an mbarrier of other than 1 to 2^20 - 1 arrivals", line);
    if (const char* const wrong = engines_.init(mbarrier, arrivals)) fail(wrong, line);
}

inline void Worker::expect(void* mbarrier, unsigned bytes, int line) {
    Mbarrier& barrier = mbarrier_at(mbarrier, line);
    if (returned_of_[shared().block_of(mbarrier)] == launch_->threads)
        fail("an arrival at an mbarrier of a block that has ended", line);
    if (const char* const wrong = engines_.tensor_memory.arrive(current)) fail(wrong, line);
    const unsigned phases = barrier.phases;
    if (const char* const wrong = engines_.arrive(barrier, bytes)) fail(wrong, line);
    wake(barrier, phases);
}

inline void Worker::wait(const void* mbarrier, unsigned phase, int line) {
    Mbarrier& barrier = mbarrier_at(mbarrier, line);
    if (phase > barrier.phases || phase + 1 < barrier.phases)
        fail("a wait for phase " + std::to_string(phase) + " of an mbarrier that has completed " +
                 std::to_string(barrier.phases),
             line);
    if (phase == barrier.phases) {
        Thread& self = threads_[current];
        self.state = State::kBytes;
        self.mbarrier = &barrier;
        self.line = line;
        ++barrier.waiting;
        suspend();
    }
    happens_after(&barrier);
    engines_.tensor_memory.synchronize(current);
}

inline void Worker::commit_products(const void* mbarrier, int line) {
    Mbarrier& barrier = mbarrier_at(mbarrier, line);
    const unsigned phases = barrier.phases;
    if (const char* const wrong = engines_.commit(current, barrier)) fail(wrong, line);
    wake(barrier, phases);
}

inline unsigned Worker::allocate_tensor_memory(unsigned columns, int line) {
    unsigned address = 0;
    const char* const wrong = engines_.tensor_memory.allocate(current, columns, random_.next(), &address);
    if (wrong != nullptr) fail(wrong, line);
    return address;
}

inline Mbarrier& Worker::mbarrier_for(const void* to, const void* mbarrier, int line) {
    Mbarrier& barrier = mbarrier_at(mbarrier, line);
    const int block = shared().block_of(to);
    if (block < 0 || block != shared().block_of(mbarrier))
        fail("bytes that do not go to the shared memory of the block whose mbarrier counts them", line);
    if (returned_of_[block] == launch_->threads) fail("bytes for a block that has ended", line);
    return barrier;
}

inline void Worker::copy(const Copy& copy, const void* mbarrier, int line) {
    Mbarrier& barrier = mbarrier_for(copy.to, mbarrier, line);
    const unsigned phases = barrier.phases;
    engines_.copy(barrier, copy);
    wake(barrier, phases);
}

inline const TensorMap& Worker::map_at(
    const void* map, const int* coordinates, bool is_im2col, const void* tile, int line) {
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0) fail("a tensor map that 64 does not divide", line);
    const TensorMap& found = *static_cast<const TensorMap*>(map);
    if (found.rank == 0) fail("a tensor map that nobody has encoded", line);
    if (found.is_im2col != is_im2col)
        fail(is_im2col ? "im2col by a tensor map of tiles" : "a tile by a tensor map of im2col", line);
    if (coordinates[0] * found.element_bytes % kChunk != 0)
        fail("a tile that begins at byte " + std::to_string(coordinates[0] * found.element_bytes) +
                 " of its rows, which 16 does not divide",
             line);
    const int block = shared().block_of(tile);
    if (block < 0 || (static_cast<const char*>(tile) - shared().of(block)) % 128 != 0)
        fail("a tile in shared memory whose address 128 does not divide", line);
    return found;
}

// Every run is a copy of its own, so that runs land in any order.
inline void Worker::load_tensor(void* to, const void* map, const int* coordinates,
                                const unsigned short* offsets, const void* mbarrier, int line) {
    const TensorMap& of_array = map_at(map, coordinates, offsets != nullptr, to, line);
    if (offsets != nullptr && !is_in_pixel_box(of_array, coordinates))
        fail("im2col from a pixel outside of the box of its tensor map", line);
    Mbarrier& barrier = mbarrier_for(to, mbarrier, line);
    const unsigned phases = barrier.phases;
    char* const base = shared().of(shared().block_of(to));
    const size_t tile = static_cast<char*>(to) - base;
    const auto take = [&](const Run& run) {
        engines_.copy(barrier, {base + swizzled(tile + run.tile, of_array.swizzle), run.array, run.bytes, {}});
    };
    if (offsets != nullptr) for_pixels(of_array, coordinates, offsets, take);
    else for_tile(of_array, coordinates, take);
    wake(barrier, phases);
}

inline void Worker::store_tensor(const void* map, const int* coordinates, const void* from, int line) {
    const TensorMap& of_array = map_at(map, coordinates, false, from, line);
    if (shared().block_of(from) != static_cast<int>(rank())) fail("a tile of another block is stored", line);
    for (int d = 0; d < of_array.rank; ++d)
        if (coordinates[d] < 0) fail("a store of a tile that begins before the array", line);
    const char* const base = shared().of(rank());
    const size_t tile = static_cast<const char*>(from) - base;
    engines_.note_writes(current, rank());
    for_tile(of_array, coordinates, [&](const Run& run) {
        if (run.array == nullptr) return;
        const char* const at = base + swizzled(tile + run.tile, of_array.swizzle);
        stores_.store(engines_, current, at, run.array, run.bytes);
    });
}

inline void Worker::add(int* address, int value) {
    check_access(nullptr, address, sizeof value);
    const Unobserved unobserved;
    additions_[current].push_back({address, value});
}

inline void Worker::publish(unsigned thread) {
    for (const Addition& each : additions_[thread])
        __atomic_fetch_add(each.address, each.value, __ATOMIC_RELAXED);
    additions_[thread].clear();
}

// In a late launch, the previous launch runs only when every thread that can wait is waiting.
inline void Worker::wait_on_dependency() {
    if (launch_->before == nullptr || !launch_->is_late()) return;
    threads_[current].state = State::kDependency;
    suspend();
}

}  // namespace
