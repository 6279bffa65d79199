// Runs GPU-style kernels on the CPU, one fiber per GPU thread: the contract is in cpu_runtime.h.
//
// Bottom up: cpu_context.h (a suspended stack), cpu_arena.h (one block's memory), cpu_launch.h (what is to be
// run), cpu_worker.h (one block in flight: barriers, exchanges, the order of threads), and here the launch,
// which hands blocks to workers.
//
// The runtime is never compiled with -fsanitize itself. A sanitizer watches the kernel; the runtime only
// tells it what fibers, barriers and shared memory are (QCONV_SANITIZE_ADDRESS or QCONV_SANITIZE_THREAD).
#include "cpu_runtime.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cpu_worker.h"

namespace {

constexpr unsigned long kMaxSharedBytes = 1ul << 30;

// Workers wait here between launches with their stacks.
class Pool {
  public:
    Worker* take() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (idle_.empty()) return new Worker;
        Worker* last = idle_.back();
        idle_.pop_back();
        return last;
    }
    void give_back(Worker* idle) {
        const std::lock_guard<std::mutex> lock(mutex_);
        idle_.push_back(idle);
    }

  private:
    std::mutex mutex_;
    std::vector<Worker*> idle_;
};

// Never freed: a thread may still launch while the process destroys its static objects.
Pool& pool = *new Pool;

void work(Launch& launch) {
    try {
        Worker* const mine = pool.take();
        mine->run(launch);
        pool.give_back(mine);
    } catch (const std::bad_alloc&) {
        launch.fail("out of memory for a worker; use fewer workers");
    }
}

std::string refuse(const unsigned grid[3], unsigned threads, unsigned long shared_bytes, unsigned warp_size) {
    if (threads < 1 || threads > kMaxThreads)
        return std::to_string(threads) + " threads per block; a block has 1 to 1024";
    if (shared_bytes > kMaxSharedBytes)
        return std::to_string(shared_bytes) + " bytes of shared memory; the CPU device has 1 GiB per block";
    if (warp_size != 32 && warp_size != 64)
        return "warp size " + std::to_string(warp_size) + "; it is 32 or 64";
    for (int axis = 0; axis < 3; ++axis)
        if (grid[axis] == 0)
            return "the grid is 0 along axis " + std::to_string(axis) + "; launch at least one block";
    return "";
}

}  // namespace

extern "C" {

int qconv_cpu_thread(void) { return static_cast<int>(worker->current); }

int qconv_cpu_block(int axis) { return static_cast<int>(worker->block[axis]); }

void* qconv_cpu_shared(void) { return worker->shared; }

void qconv_cpu_barrier(int line) { worker->barrier(line); }

void qconv_cpu_barrier_of_team(int team, int threads, int line) {
    worker->barrier_of_team(static_cast<unsigned>(team), static_cast<unsigned>(threads), line);
}

const void* qconv_cpu_warp_exchange(const void* value, unsigned long bytes, int line) {
    return worker->exchange(value, bytes, line);
}

void qconv_cpu_wait_to_be_told(const void* object, int line) { worker->wait_to_be_told(object, line); }

void qconv_cpu_tell(const void* object) { worker->tell(object); }

void qconv_cpu_fail(const char* what, int line) { worker->fail(what, line); }

int qconv_cpu_defers_copies(void) { return worker->defers_copies(); }

int qconv_cpu_threads(void) { return worker->threads(); }

int qconv_cpu_launch(qconv_cpu_entry_t entry, const void* arguments, const unsigned grid[3], unsigned threads,
                     unsigned long shared_bytes, unsigned warp_size, unsigned workers, unsigned seed,
                     char* message, unsigned long message_bytes) {
    Launch launch;
    launch.message = refuse(grid, threads, shared_bytes, warp_size);
    if (launch.message.empty()) {
        launch.entry = entry;
        launch.arguments = arguments;
        for (int axis = 0; axis < 3; ++axis) launch.grid[axis] = grid[axis];
        launch.threads = threads;
        launch.warp_shift = warp_size == 32 ? 5 : 6;
        launch.seed = seed;
        launch.shared_bytes = shared_bytes;
        launch.blocks = static_cast<uint64_t>(grid[0]) * grid[1] * grid[2];
        // A block maps two areas per thread (a stack and its guard page); Linux allows a process 65530 by
        // default.
        if (workers == 0) workers = std::min(std::thread::hardware_concurrency(), 28000 / threads);
        std::vector<std::thread> helpers;
        try {
            while (helpers.size() + 1 < workers && helpers.size() + 1 < launch.blocks)
                helpers.emplace_back(work, std::ref(launch));
        } catch (const std::system_error&) {
            // The system gives no more threads. Those that run, this one among them, do all the blocks.
        }
        work(launch);
        for (std::thread& helper : helpers) helper.join();
        happens_after(&launch);
    }
    if (launch.message.empty()) return 0;
    if (message_bytes > 0) snprintf(message, message_bytes, "%s", launch.message.c_str());
    return 1;
}

}  // extern "C"
