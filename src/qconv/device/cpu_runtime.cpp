// Runs GPU-style kernels on the CPU, one fiber per GPU thread. The interface is in cpu_runtime.h.
//
// From the bottom up: cpu_context.h (suspended stacks), cpu_arena.h (the memory of a cluster), cpu_launch.h (a
// launch), cpu_tensor_memory.h (products in tensor memory), cpu_engines.h (asynchronous copies and mbarriers),
// cpu_tensor.h (tiles of arrays), cpu_stores.h (asynchronous stores to device memory), cpu_thread.h (threads
// and what they wait for), cpu_worker.h (a cluster in flight: barriers, exchanges, the order of threads),
// cpu_cluster.h (cluster and asynchronous operations), and here the launch, which distributes clusters to
// workers.
//
// The runtime itself is never compiled with -fsanitize. A sanitizer watches the kernel; the runtime tells it
// about fibers, barriers and shared memory (QCONV_SANITIZE_ADDRESS or QCONV_SANITIZE_THREAD).
#include "cpu_runtime.h"

#include <algorithm>
#include <cfenv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cpu_cluster.h"

namespace {

constexpr unsigned long kMaxSharedBytes = 1ul << 30;
constexpr unsigned kMaxThreadsOfBlock = 1024;

// Idle workers, which keep their stacks between launches.
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

// Sets the floating-point environment of a GPU, round to nearest even with denormals, whatever the caller's
// thread uses (which helpers inherit). The destructor restores it.
class DefaultFloats {
  public:
    DefaultFloats() {
        fegetenv(&before_);
        fesetenv(FE_DFL_ENV);
    }
    DefaultFloats(const DefaultFloats&) = delete;
    ~DefaultFloats() { fesetenv(&before_); }

  private:
    fenv_t before_;
};

void work(Launch& launch) {
    const DefaultFloats floats;
    try {
        Worker* const mine = pool.take();
        mine->run(launch);
        pool.give_back(mine);
    } catch (const std::bad_alloc&) {
        launch.fail("out of memory for a worker; use fewer workers");
    }
}

std::string refuse(const qconv_cpu_grid& asked) {
    if (asked.threads < 1 || asked.threads > kMaxThreadsOfBlock)
        return std::to_string(asked.threads) + " threads per block; a block has 1 to 1024";
    if (asked.shared_bytes > kMaxSharedBytes)
        return std::to_string(asked.shared_bytes) +
               " bytes of shared memory; the CPU device has 1 GiB per block";
    if (asked.warp_size != 32 && asked.warp_size != 64)
        return "warp size " + std::to_string(asked.warp_size) + "; it is 32 or 64";
    for (int axis = 0; axis < 3; ++axis)
        if (asked.grid[axis] == 0)
            return "the grid is 0 along axis " + std::to_string(axis) + "; launch at least one block";
    if (asked.cluster < 1 || asked.cluster > kMaxBlocksOfCluster || asked.grid[0] % asked.cluster != 0)
        return "clusters of " + std::to_string(asked.cluster) + " blocks in a grid of " +
               std::to_string(asked.grid[0]) + "; they have 1 to 16 blocks and divide the grid along axis 0";
    if (asked.cluster > 1 &&
        (asked.threads % asked.warp_size != 0 || asked.cluster * asked.threads > kMaxThreads))
        return "a cluster of " + std::to_string(asked.cluster) + " blocks of " +
               std::to_string(asked.threads) + " threads; its blocks are whole warps, and it has at most 4096 "
               "threads";
    return "";
}

// Runs all clusters on this thread and on helpers.
void run(Launch& launch, unsigned workers) {
    // A cluster maps two areas per thread (a stack and its guard page); Linux allows 65530 per process by
    // default.
    if (workers == 0) workers = std::min(std::thread::hardware_concurrency(), 28000 / launch.all_threads());
    std::vector<std::thread> helpers;
    try {
        while (helpers.size() + 1 < workers && helpers.size() + 1 < launch.clusters)
            helpers.emplace_back(work, std::ref(launch));
    } catch (const std::system_error&) {
        // The system has no more threads. The existing ones, including this one, run all blocks.
    }
    work(launch);
    for (std::thread& helper : helpers) helper.join();
    happens_after(&launch);
}

}  // namespace

extern "C" {

unsigned qconv_cpu_fresh_fibers = 4096;

int qconv_cpu_thread(void) { return worker->thread_in_block(); }

int qconv_cpu_block(int axis) {
    return static_cast<int>(worker->block[axis] + (axis == 0 ? worker->rank() : 0));
}

void* qconv_cpu_shared(void) { return worker->shared().of(worker->rank()); }

bool qconv_cpu_is_shared(const void* address) { return worker->shared().block_of(address) >= 0; }

void qconv_cpu_barrier(int line) { worker->barrier(line); }

void qconv_cpu_barrier_of_team(int team, int threads, int line) {
    worker->barrier_of_team(static_cast<unsigned>(team), static_cast<unsigned>(threads), line);
}

const void* qconv_cpu_warp_exchange(const void* value, unsigned long bytes, int line) {
    return worker->exchange(value, bytes, line);
}

void qconv_cpu_cluster_arrive(int line) { worker->arrive_at_cluster(line); }

void qconv_cpu_cluster_wait(int line) { worker->wait_for_cluster(line); }

void* qconv_cpu_in_block(const void* address, int block, int line) {
    return worker->in_block(address, static_cast<unsigned>(block), line);
}

void qconv_cpu_mbarrier_init(void* mbarrier, int line) { worker->init(mbarrier, 1, line); }

void qconv_cpu_mbarrier_open(void* mbarrier, unsigned arrivals, int line) {
    worker->init(mbarrier, arrivals, line);
}

void qconv_cpu_mbarrier_expect(void* mbarrier, unsigned bytes, int line) {
    worker->expect(mbarrier, bytes, line);
}

void qconv_cpu_mbarrier_wait(void* mbarrier, unsigned phase, int line) {
    worker->wait(mbarrier, phase, line);
}

void qconv_cpu_copy_bulk(void* to, const void* from, unsigned bytes, void* mbarrier, int line) {
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes) % 16 != 0)
        worker->fail("a copy in bulk whose addresses or size 16 does not divide", line);
    worker->copy({static_cast<char*>(to), static_cast<const char*>(from), bytes, {}}, mbarrier, line);
}

void qconv_cpu_store_async(void* to, const void* value, unsigned bytes, void* mbarrier, int line) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || reinterpret_cast<uintptr_t>(to) % bytes != 0)
        worker->fail("an asynchronous store of other than 4, 8 or 16 bytes, or to an odd address", line);
    Copy copy = {static_cast<char*>(to), nullptr, bytes, {}};
    memcpy(copy.value, value, bytes);
    worker->copy(copy, mbarrier, line);
}

void qconv_cpu_load_tensor(void* to, const void* map, const int* coordinates, const unsigned short* offsets,
                           void* mbarrier, int line) {
    worker->load_tensor(to, map, coordinates, offsets, mbarrier, line);
}

void qconv_cpu_store_tensor(const void* map, const int* coordinates, const void* from, int line) {
    worker->store_tensor(map, coordinates, from, line);
}

void qconv_cpu_commit_stores(void) { worker->commit_stores(); }

void qconv_cpu_wait_for_stores(unsigned groups) { worker->wait_for_stores(groups); }

void qconv_cpu_use_async_proxy(void) { worker->engines().watch(); }

void qconv_cpu_fence_proxy_async(void) { worker->engines().fence(worker->current, worker->rank()); }

const void* qconv_cpu_async_proxy_view(const void* address) { return worker->engines().view(address); }

unsigned qconv_cpu_tensor_allocate(unsigned columns, int line) {
    return worker->allocate_tensor_memory(columns, line);
}

void qconv_cpu_tensor_relinquish(int line) {
    if (const char* const wrong = worker->engines().tensor_memory.relinquish()) worker->fail(wrong, line);
}

void qconv_cpu_tensor_free(unsigned address, unsigned columns, int line) {
    TensorMemory& memory = worker->engines().tensor_memory;
    if (const char* const wrong = memory.deallocate(worker->current, address, columns)) worker->fail(wrong, line);
}

void qconv_cpu_tensor_fence(int after) {
    worker->engines().tensor_memory.fence(worker->current, after != 0);
}

void qconv_cpu_tensor_multiply(unsigned sums, unsigned long long a, unsigned long long b, unsigned kind, int adds,
                               int line) {
    const Product product = {sums, a, b, kind, adds != 0};
    if (const char* const wrong = worker->engines().multiply(worker->current, product)) worker->fail(wrong, line);
}

void qconv_cpu_tensor_commit(void* mbarrier, int line) { worker->commit_products(mbarrier, line); }

void qconv_cpu_tensor_load(unsigned address, int* to, unsigned count, int line) {
    TensorMemory& memory = worker->engines().tensor_memory;
    if (const char* const wrong = memory.load(worker->current, address, to, count)) worker->fail(wrong, line);
}

void qconv_cpu_tensor_wait_for_loads(void) {
    worker->engines().tensor_memory.wait_for_loads(worker->current);
}

void qconv_cpu_add(int* address, int value) { worker->add(address, value); }

void qconv_cpu_publish(void) { worker->publish(worker->current); }

void qconv_cpu_wait_on_dependency(void) { worker->wait_on_dependency(); }

void qconv_cpu_fail(const char* what, int line) { worker->fail(what, line); }

int qconv_cpu_defers_copies(void) { return worker->engines().late(); }

int qconv_cpu_launch(const qconv_cpu_grid* asked, char* message, unsigned long message_bytes) {
    Launch launch;
    launch.message = refuse(*asked);
    if (launch.message.empty()) {
        launch.entry = asked->entry;
        launch.arguments = asked->arguments;
        launch.before = asked->before;
        for (int axis = 0; axis < 3; ++axis) launch.grid[axis] = asked->grid[axis];
        launch.threads = asked->threads;
        launch.cluster = asked->cluster;
        launch.warp_shift = asked->warp_size == 32 ? 5 : 6;
        launch.seed = asked->seed;
        launch.shared_bytes = asked->shared_bytes;
        launch.clusters =
            static_cast<uint64_t>(asked->grid[0]) * asked->grid[1] * asked->grid[2] / asked->cluster;
        if (!launch.is_late()) launch.end_before();
        run(launch, asked->workers);
        launch.end_before();
    }
    if (launch.message.empty()) return 0;
    if (message_bytes > 0) snprintf(message, message_bytes, "%s", launch.message.c_str());
    return 1;
}

}  // extern "C"
