// The C ABI between a generated kernel and the CPU device. Generated sources are self-contained: they declare
// these functions themselves and do not include this file. It is the reference for both sides, and what the
// runtime, its test kernels and the harness are compiled against.
//
// A kernel is `extern "C" void NAME_entry(const void* arguments)`; every thread of every block runs it once.
// Each thread is a fiber. A block lives on one OS thread from start to end and its fibers take turns there;
// several blocks are in flight, one per worker. A thread that spins until another thread of its block writes
// something therefore hangs: threads of a block meet at barriers and warp exchanges, or wait to be told.
#pragma once

extern "C" {

typedef void (*qconv_cpu_entry_t)(const void* arguments);

// Linear thread index in the block.
int qconv_cpu_thread(void);

// Block index, axis 0..2.
int qconv_cpu_block(int axis);

// The block's shared memory, 128-byte aligned. Before each block it is filled with a byte that depends on the
// block and the seed, so that reading what nobody wrote gives wrong and varying results.
void* qconv_cpu_shared(void);

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

// Lets others run until one of them tells of `object`. Nothing is ordered by it, and it says nothing of what
// `object` is then: a thread looks, and waits again.
void qconv_cpu_wait_to_be_told(const void* object, int line);
void qconv_cpu_tell(const void* object);

// Ends the launch with a message: what this thread did wrong at this line, where a GPU would not say anything.
// Does not return.
void qconv_cpu_fail(const char* what, int line);

// Whether an asynchronous copy happens no earlier than the wait for it, and otherwise at once: the two ends of
// what a GPU may do. It is the same for all of a launch.
int qconv_cpu_defers_copies(void);
// Of the launch, a block.
int qconv_cpu_threads(void);

// Runs a grid and returns when all blocks are done.
//   threads    per block, 1..1024
//   warp_size  32 or 64
//   workers    blocks in flight; 0: one per core
//   seed       the order of threads between two barriers. 0: ascending, each as far as it can; 1: descending,
//              and the blocks too; others: a pseudo-random order per phase, the same for the same seed and
//              block. Even: asynchronous copies are deferred; odd: they happen at once
// Returns 0, or nonzero with a readable `message` when the request is invalid, memory is short, or threads
// diverged: the block's threads (or a warp's lanes) wait at different lines, or some have returned while
// others wait. After a divergence no further block is started, the fibers of that block are abandoned where
// they stand, and global memory holds whatever was written. Safe to call from several OS threads at once.
int qconv_cpu_launch(qconv_cpu_entry_t entry, const void* arguments, const unsigned grid[3], unsigned threads,
                     unsigned long shared_bytes, unsigned warp_size, unsigned workers, unsigned seed,
                     char* message, unsigned long message_bytes);

}  // extern "C"
