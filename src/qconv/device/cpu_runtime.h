// The C ABI between a generated kernel and the CPU device. Generated sources are self-contained: they declare
// these functions themselves and do not include this file. The runtime, its test kernels and the harness do.
//
// A kernel is `extern "C" void NAME_entry(const void* arguments)`; every thread of every block runs it once.
// Each thread is a fiber. A cluster, by default of one block, stays on one OS thread, where its fibers take
// turns. Each worker has one cluster in flight. A thread that spins on a write of another thread of its cluster
// therefore hangs: threads must meet at barriers, mbarriers and warp exchanges.
#pragma once

extern "C" {

typedef void (*qconv_cpu_entry_t)(const void* arguments);

// Linear thread index in the block.
int qconv_cpu_thread(void);

// Block index, axis 0..2.
int qconv_cpu_block(int axis);

// The block's shared memory, aligned to 1024 bytes, the period of the 128-byte swizzle. Before each block it
// is filled with a byte that depends on the block and the seed, so that reads of unwritten bytes give wrong
// and varying results.
void* qconv_cpu_shared(void);

// True if an address is in the shared memory of the running cluster.
bool qconv_cpu_is_shared(const void* address);

// Waits for all threads of the block. `line` is the source line of the call; all threads of a block must
// arrive at the same one.
void qconv_cpu_barrier(int line);

// A barrier of one team: the block's threads form teams of `threads` consecutive threads, which do not wait
// for each other.
void qconv_cpu_barrier_of_team(int team, int threads, int line);

// Waits for all lanes of this thread's warp, each of which deposits `bytes` (1..64) from `value`. Returns the
// deposits, lane i's at byte 64 * i, valid until this lane's next exchange. All lanes must pass the same
// `line` and `bytes`. Shuffles, ballots and matrix instructions are built on it. The last warp may be
// partial; the slots of its missing lanes are unspecified.
const void* qconv_cpu_warp_exchange(const void* value, unsigned long bytes, int line);

// The barrier of a cluster in two halves, which every thread of all its blocks calls alternately.
void qconv_cpu_cluster_arrive(int line);
void qconv_cpu_cluster_wait(int line);
// Maps an address in this block's shared memory to the same location in another block of the cluster.
void* qconv_cpu_in_block(const void* address, int block, int line);

// An mbarrier is at an address in shared memory. A phase completes with one arrival, or as many as it was
// opened for, and all bytes that these expect. `phase` counts from 0. A wait is for the last completed phase
// or the next one: hardware tells phases apart only by parity.
void qconv_cpu_mbarrier_init(void* mbarrier, int line);
void qconv_cpu_mbarrier_open(void* mbarrier, unsigned arrivals, int line);
void qconv_cpu_mbarrier_expect(void* mbarrier, unsigned bytes, int line);
void qconv_cpu_mbarrier_wait(void* mbarrier, unsigned phase, int line);
// cp.async.bulk by one thread: multiples of 16 bytes, read and written by the async proxy; and st.async of 4,
// 8 or 16 bytes, whose value is taken at once. The mbarrier is in the destination block and counts the bytes.
void qconv_cpu_copy_bulk(void* to, const void* from, unsigned bytes, void* mbarrier, int line);
void qconv_cpu_store_async(void* to, const void* value, unsigned bytes, void* mbarrier, int line);

// cp.async.bulk.tensor by one thread. `map` is the description from tensor_maps.py, with one coordinate per
// dimension, innermost first. The innermost coordinate must be a multiple of 16 bytes, and coordinates of
// stores not negative: GPUs raise an illegal instruction there. An im2col load has `offsets`, the distances
// of a filter tap from the pixel, innermost first; a tile load has null. The mbarrier is in the destination
// block.
void qconv_cpu_load_tensor(void* to, const void* map, const int* coordinates, const unsigned short* offsets,
                           void* mbarrier, int line);
// A store may read the tile until the thread has waited for its group: cp.async.bulk.commit_group, and
// wait_group.read, which returns when at most `groups` of the latest groups have not read.
void qconv_cpu_store_tensor(const void* map, const int* coordinates, const void* from, int line);
void qconv_cpu_commit_stores(void);
void qconv_cpu_wait_for_stores(unsigned groups);

// The async proxy sees a thread's writes to shared memory after that thread's next fence. Every thread of a
// kernel that relies on this calls `use_async_proxy` before it writes. All threads see the async proxy's own
// writes.
void qconv_cpu_use_async_proxy(void);
void qconv_cpu_fence_proxy_async(void);
// Returns the bytes that the async proxy sees at an address.
const void* qconv_cpu_async_proxy_view(const void* address);

// Tensor memory, for blocks without a cluster: tcgen05.alloc and dealloc, by one lane for its warp, and
// tcgen05.relinquish_alloc_permit. Every use and the fences around it are checked: see cpu_tensor_memory.h.
unsigned qconv_cpu_tensor_allocate(unsigned columns, int line);
void qconv_cpu_tensor_relinquish(int line);
void qconv_cpu_tensor_free(unsigned address, unsigned columns, int line);
// tcgen05.fence::before_thread_sync (0) and ::after_thread_sync (1).
void qconv_cpu_tensor_fence(int after);
// tcgen05.mma of kind::i8 with cta_group::1: the address of the sums, the descriptors of both operands in
// shared memory, with addresses relative to the block's, and the instruction descriptor.
void qconv_cpu_tensor_multiply(unsigned sums, unsigned long long a, unsigned long long b, unsigned kind, int adds,
                               int line);
// tcgen05.commit: one arrival when this thread's products so far are done.
void qconv_cpu_tensor_commit(void* mbarrier, int line);
// tcgen05.ld of 32x32b by each lane: `count` columns of its row; and tcgen05.wait::ld, before which the
// values must not be read.
void qconv_cpu_tensor_load(unsigned address, int* to, unsigned count, int line);
void qconv_cpu_tensor_wait_for_loads(void);

// A relaxed addition to device memory. In a late launch, other blocks see it after this thread's next
// `publish` or its end.
void qconv_cpu_add(int* address, int value);
void qconv_cpu_publish(void);

// griddepcontrol.wait: returns when the previous launch has ended.
void qconv_cpu_wait_on_dependency(void);

// Ends the launch with a message about an error of this thread at this line, which a GPU would not report.
// Does not return.
void qconv_cpu_fail(const char* what, int line);

// True in a late launch: asynchronous operations happen no earlier than a wait requires, and writes become
// visible no earlier than they must. In an early launch, all of it happens at once. These are the extremes of
// what a GPU may do.
int qconv_cpu_defers_copies(void);

// A launch.
//   threads    per block, 1..1024
//   cluster    adjacent blocks along x per cluster, up to 16 and up to 4096 threads
//   warp_size  32 or 64
//   workers    clusters in flight; 0: one per core
//   seed       the order of threads between two barriers. 0: ascending, each as far as it can; 1: descending,
//              and the blocks too; others: a pseudo-random order per phase, the same for the same seed and
//              block. Even: late; odd: early
//   before     the previous launch on the stream if the two overlap, else null. In a late launch it runs when a
//              thread waits for it, or at the end; in an early one it runs first
typedef struct qconv_cpu_grid {
    qconv_cpu_entry_t entry;
    const void* arguments;
    const struct qconv_cpu_grid* before;
    unsigned long shared_bytes;
    unsigned grid[3], threads, cluster, warp_size, workers, seed;
} qconv_cpu_grid;

// ThreadSanitizer takes half a millisecond to create a fiber. After this many per launch, fibers are kept
// from block to block, and races between two blocks are then only detected if the blocks have different
// workers. Set it before a launch; without ThreadSanitizer it has no effect.
extern unsigned qconv_cpu_fresh_fibers;

// Runs a grid and returns when all blocks are done. Returns 0, or nonzero with a readable `message` if the
// request is invalid, memory is short, or threads diverged: a block's threads (or a warp's lanes) wait at
// different lines, or some have returned while others wait. After a divergence no further block starts, the
// fibers of that block are abandoned, and global memory keeps what was written. Safe to call from several OS
// threads at once.
int qconv_cpu_launch(const qconv_cpu_grid* launched, char* message, unsigned long message_bytes);

}  // extern "C"
