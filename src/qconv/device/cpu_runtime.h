// The C ABI between a generated kernel and the CPU device. Generated sources are self-contained: they declare
// these functions themselves and do not include this file. It is the reference for both sides, and what the
// runtime, its test kernels and the harness are compiled against.
//
// A kernel is `extern "C" void NAME_entry(const void* arguments)`; every thread of every block runs it once.
// Each thread is a fiber. A cluster, by default of one block, lives on one OS thread from start to end and
// its fibers take turns there; several clusters are in flight, one per worker. A thread that spins until
// another thread of its cluster writes something therefore hangs: they meet at barriers, mbarriers and warp
// exchanges.
#pragma once

extern "C" {

typedef void (*qconv_cpu_entry_t)(const void* arguments);

// Linear thread index in the block.
int qconv_cpu_thread(void);

// Block index, axis 0..2.
int qconv_cpu_block(int axis);

// The block's shared memory, aligned to the 1024 bytes that a swizzle of 128 repeats after. Before each block it
// is filled with a byte that depends on the block and the seed, so that reading what nobody wrote gives wrong
// and varying results.
void* qconv_cpu_shared(void);

// Whether an address is in the shared memory of a block that runs here.
bool qconv_cpu_is_shared(const void* address);

// Waits for all threads of the block. `line` is the source line of the call: the threads of a block have to
// arrive at the same one.
void qconv_cpu_barrier(int line);

// The same for one of the teams that a block's threads are divided into, so many neighbouring threads each.
// Teams do not wait for each other.
void qconv_cpu_barrier_of_team(int team, int threads, int line);

// Waits for all lanes of this thread's warp, each depositing `bytes` (1..64) from `value`. Returns the
// deposits, lane i's at byte 64 * i, valid until this lane's next exchange. Lanes have to agree on `line` and
// `bytes`. Shuffles, ballots and matrix instructions are built on it. The last warp may be partial; the slots
// of lanes that do not exist are unspecified.
const void* qconv_cpu_warp_exchange(const void* value, unsigned long bytes, int line);

// The barrier of a cluster in two halves, which every thread of all its blocks executes by turns.
void qconv_cpu_cluster_arrive(int line);
void qconv_cpu_cluster_wait(int line);
// Where another block of the cluster has what this one has at an address of its shared memory.
void* qconv_cpu_in_block(const void* address, int block, int line);

// An mbarrier lies at an address of shared memory. One arrival, or as many as it was opened for, and all bytes
// that these expect complete a phase. `phase` counts them from 0; a wait is for the latest that is complete or the one after, since
// hardware, which has its parity, tells no others apart.
void qconv_cpu_mbarrier_init(void* mbarrier, int line);
void qconv_cpu_mbarrier_open(void* mbarrier, unsigned arrivals, int line);
void qconv_cpu_mbarrier_expect(void* mbarrier, unsigned bytes, int line);
void qconv_cpu_mbarrier_wait(void* mbarrier, unsigned phase, int line);
// cp.async.bulk by one thread: multiples of 16 bytes, read and written by the async proxy; and st.async of 4,
// 8 or 16 bytes, whose value is taken at once. The mbarrier, of the block that they go to, counts them.
void qconv_cpu_copy_bulk(void* to, const void* from, unsigned bytes, void* mbarrier, int line);
void qconv_cpu_store_async(void* to, const void* value, unsigned bytes, void* mbarrier, int line);

// cp.async.bulk.tensor by one thread: `map` is what tensor_maps.py describes, with as many coordinates as it has
// dimensions, the innermost first: a multiple of 16 bytes there, and for stores nothing below zero, where GPUs
// stop with an illegal instruction. A load of im2col has `offsets`, of a tap from the pixel, innermost first;
// null: of a tile. The mbarrier is of the block that the tile goes to; multicast is a load for each block.
void qconv_cpu_load_tensor(void* to, const void* map, const int* coordinates, const unsigned short* offsets,
                           void* mbarrier, int line);
// A store may read the tile until the thread has waited for its group: cp.async.bulk.commit_group, and
// wait_group with at most so many of the latest outstanding, for its writes or (.read) for its reads alone.
void qconv_cpu_store_tensor(const void* map, const int* coordinates, const void* from, int line);
void qconv_cpu_commit_stores(void);
void qconv_cpu_wait_for_stores(unsigned groups, int for_writes);

// The async proxy sees what a thread wrote to shared memory behind that thread's next fence. For this, every
// thread of a kernel that uses it says so before it writes anything. What the proxy has itself written all
// see.
void qconv_cpu_use_async_proxy(void);
void qconv_cpu_fence_proxy_async(void);
// Where the bytes are that the async proxy finds at an address.
const void* qconv_cpu_async_proxy_view(const void* address);

// Tensor memory, of blocks that are no cluster: tcgen05.alloc and dealloc, by one lane for its warp, and
// tcgen05.relinquish_alloc_permit. Every use is checked, and so are the fences around it, as
// cpu_tensor_memory.h has it.
unsigned qconv_cpu_tensor_allocate(unsigned columns, int line);
void qconv_cpu_tensor_relinquish(int line);
void qconv_cpu_tensor_free(unsigned address, unsigned columns, int line);
// tcgen05.fence::before_thread_sync (0) and ::after_thread_sync (1).
void qconv_cpu_tensor_fence(int after);
// tcgen05.mma of kind::i8, for a block of its own: the address of its sums, the descriptors of both factors in
// shared memory, whose addresses count from where the block's begins, and that of the instruction.
void qconv_cpu_tensor_multiply(unsigned sums, unsigned long long a, unsigned long long b, unsigned kind, int adds,
                               int line);
// tcgen05.commit: one arrival when this thread's products so far are done.
void qconv_cpu_tensor_commit(void* mbarrier, int line);
// tcgen05.ld of 32x32b, by each lane: its row of so many columns; and tcgen05.wait::ld, before which nobody reads
// what was loaded.
void qconv_cpu_tensor_load(unsigned address, int* to, unsigned count, int line);
void qconv_cpu_tensor_wait_for_loads(void);

// In a late launch: a relaxed addition to device memory, which other blocks see behind this thread's next
// `publish`, or its end.
void qconv_cpu_add(int* address, int value);
void qconv_cpu_publish(void);

// griddepcontrol.wait: returns when the launch before has ended.
void qconv_cpu_wait_on_dependency(void);

// Ends the launch with a message: what this thread did wrong at this line, where a GPU would not say
// anything. Does not return.
void qconv_cpu_fail(const char* what, int line);

// Whether the launch is a late one: asynchronous operations happen no earlier than a wait asks for them, and
// what has to be made visible is not before it is. Otherwise all of it happens at once: the two ends of what
// a GPU may do.
int qconv_cpu_defers_copies(void);

// What is launched.
//   threads    per block, 1..1024
//   cluster    neighbouring blocks along x that are one, up to 16 and to 2048 threads
//   warp_size  32 or 64
//   workers    clusters in flight; 0: one per core
//   seed       the order of threads between two barriers. 0: ascending, each as far as it can; 1: descending,
//              and the blocks too; others: a pseudo-random order per phase, the same for the same seed and
//              block. Even: late; odd: early
//   before     null, or the launch in front of it on the stream, with which it overlaps: if it is late, that
//              one is not run before a thread waits on it, or before the end; otherwise first
typedef struct qconv_cpu_grid {
    qconv_cpu_entry_t entry;
    const void* arguments;
    const struct qconv_cpu_grid* before;
    unsigned long shared_bytes;
    unsigned grid[3], threads, cluster, warp_size, workers, seed;
} qconv_cpu_grid;

// ThreadSanitizer takes half a millisecond to make a fiber. After this many in a launch they are kept from
// block to block; then races between two blocks are seen only where the blocks have different workers. To be
// set before a launch; the others have no such fibers.
extern unsigned qconv_cpu_fresh_fibers;

// Runs a grid and returns when all blocks are done.
// Returns 0, or nonzero with a readable `message` when the request is invalid, memory is short, or threads
// diverged: the block's threads (or a warp's lanes) wait at different lines, or some have returned while
// others wait. After a divergence no further block is started, the fibers of that block are abandoned where
// they stand, and global memory holds whatever was written. Safe to call from several OS threads at once.
int qconv_cpu_launch(const qconv_cpu_grid* launched, char* message, unsigned long message_bytes);

}  // extern "C"
