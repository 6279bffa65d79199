// The worker, which runs clusters of a launch one at a time: the order of threads, barriers, mbarriers and
// warp exchanges. Private to cpu_runtime.cpp.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cpu_arena.h"
#include "cpu_context.h"
#include "cpu_engines.h"
#include "cpu_launch.h"
#include "cpu_stores.h"
#include "cpu_tensor.h"
#include "cpu_thread.h"

namespace {

constexpr unsigned kMaxTeams = 15, kMaxTeamsOfCluster = 48;

// One cluster in flight, usually of one block. The ready threads form a stack. A finished exchange pushes its
// lanes, so that a warp runs as far as it can before the next one, and a block before the next: this order
// exposes missing barriers.
class Worker {
  public:
    void run(Launch& launch);
    void barrier(int line);
    void barrier_of_team(unsigned team, unsigned threads, int line);
    void arrive_at_cluster(int line);
    void wait_for_cluster(int line);
    const void* exchange(const void* value, size_t bytes, int line);
    void* in_block(const void* address, unsigned block, int line);
    void init(void* mbarrier, unsigned arrivals, int line);
    void expect(void* mbarrier, unsigned bytes, int line);
    void wait(const void* mbarrier, unsigned phase, int line);
    void commit_products(const void* mbarrier, int line);
    unsigned allocate_tensor_memory(unsigned columns, int line);
    void copy(const Copy& copy, const void* mbarrier, int line);
    void load_tensor(void* to, const void* map, const int* coordinates, const unsigned short* offsets,
                     const void* mbarrier, int line);
    void store_tensor(const void* map, const int* coordinates, const void* from, int line);
    void commit_stores() { stores_.commit(current); }
    void wait_for_stores(unsigned groups) { stores_.wait(engines_, current, groups, false); }
    void add(int* address, int value);
    void publish(unsigned thread);
    void wait_on_dependency();
    [[noreturn]] void fail(const std::string& what, int line);
    unsigned rank() const { return launch_->cluster == 1 ? 0 : current / launch_->threads; }
    int thread_in_block() const {
        return static_cast<int>(launch_->cluster == 1 ? current : current % launch_->threads);
    }
    const Shared& shared() const { return arena_.shared(); }
    Engines& engines() { return engines_; }
    void run_threads();  // on a fiber: runs the threads that its stack serves, in turn

    unsigned current = 0;    // the running thread of the cluster
    unsigned block[3] = {};  // the first of the cluster

  private:
    void run_cluster(uint64_t linear);
    void begin_threads();
    void meet(unsigned index, unsigned first, unsigned count, int line);
    void ready(unsigned first, unsigned count);
    void ready_warp(unsigned warp);
    void ready_those(State state, const void* mbarrier);
    void wake(Mbarrier& barrier, unsigned phases_before);
    Mbarrier& mbarrier_at(const void* address, int line);
    Mbarrier& mbarrier_for(const void* to, const void* mbarrier, int line);
    const TensorMap& map_at(const void* map, const int* coordinates, bool is_im2col, const void* tile, int line);
    void start(unsigned thread);
    void suspend();
    void go_on();
    void end_thread();
    [[noreturn]] void fail_block(const std::string& what);
    [[noreturn]] void abandon_block();
    [[noreturn]] void report_deadlock();
    std::string position(unsigned of_cluster) const;

    Launch* launch_ = nullptr;
    Arena arena_;
    Engines engines_;
    Stores stores_;
    Context main_{};  // the OS thread's own stack
    Random random_{0};
    char* deposits_ = nullptr;
    unsigned ready_count_ = 0, free_count_ = 0, returned_ = 0;
    unsigned returned_of_[kMaxBlocksOfCluster];
    Meeting meetings_[kMaxBlocksOfCluster + kMaxTeamsOfCluster] = {};  // of the blocks, then of the teams
    Meeting of_cluster_{};
    uint16_t ready_[kMaxThreads], free_stacks_[kMaxThreads];
    Warp warps_[kMaxThreads / 32];
    Thread threads_[kMaxThreads] = {};
    std::vector<Addition> additions_[kMaxThreads];
};

// The worker of this OS thread. A single pointer fits in the static TLS space that glibc reserves for
// libraries loaded later, which makes reading it one load. Other systems need the general model, and so has a runtime of
// which a process may load any number, one with each shipped network.
#if defined(__GLIBC__) && !defined(QCONV_ONE_OF_MANY_RUNTIMES)
__attribute__((tls_model("initial-exec")))
#endif
thread_local Worker* worker = nullptr;

void run_fiber() { worker->run_threads(); }

void Worker::run(Launch& launch) {
    launch_ = &launch;
    main_ = Context{};
    adopt_os_thread(main_);
    worker = this;
    while (!launch.failed.load(std::memory_order_relaxed)) {
        const uint64_t turn = launch.next_cluster.fetch_add(1, std::memory_order_relaxed);
        if (turn >= launch.clusters) break;
        if (!arena_.reserve(launch.all_threads(), launch.shared_bytes, launch.cluster)) {
            launch.fail(std::string("cannot map the stacks and shared memory of a block: ") +
                        strerror(errno) +
                        "; use fewer workers, or raise vm.max_map_count (two mappings per thread)");
            break;
        }
        run_cluster(launch.seed == 1 ? launch.clusters - 1 - turn : turn);
        engines_.end();
        stores_.clear();
        if (kThreadSanitizer) arena_.release();
    }
    for (Thread& thread : threads_) drop_fiber(thread.context);
    worker = nullptr;
}

void Worker::run_cluster(uint64_t linear) {
    const Launch& launch = *launch_;
    const unsigned clusters_x = launch.grid[0] / launch.cluster;
    block[0] = static_cast<unsigned>(linear % clusters_x) * launch.cluster;
    block[1] = static_cast<unsigned>(linear / clusters_x % launch.grid[1]);
    block[2] = static_cast<unsigned>(linear / clusters_x / launch.grid[1]);
    random_.state = linear * 0xD1342543DE82EF95u + launch.seed;
    deposits_ = arena_.deposits();
    for (unsigned rank = 0; rank < launch.cluster; ++rank) {
        const int poison = 0xCD ^ static_cast<int>(random_.next() & 0x3F);  // the top bits stay set, so never 0
        memset(shared().of(rank), poison, launch.shared_bytes);
    }
    engines_.begin(shared(), launch.is_late());
    begin_threads();
    // Each block runs as far as it can before the next; the first one depends on the seed.
    const unsigned first = launch.seed < 2 ? 0 : random_.below(launch.cluster);
    for (unsigned i = 0; i < launch.cluster; ++i) {
        const unsigned rank = launch.seed == 0 ? launch.cluster - 1 - i : (i + first) % launch.cluster;
        ready(rank * launch.threads, launch.threads);
    }
    current = ready_[--ready_count_];
    start(current);
    happens_before(this);
    switch_context(main_, threads_[current].context);
}

void Worker::begin_threads() {
    const Launch& launch = *launch_;
    const unsigned warp_size = 1u << launch.warp_shift, threads = launch.all_threads();
    for (unsigned first = 0; first < threads; first += warp_size) {
        const unsigned rest = threads - first;
        warps_[first >> launch.warp_shift] = Warp{0, rest < warp_size ? rest : warp_size, 0, 0, 0, false};
    }
    const bool keep_fibers =
        launch_->fibers.fetch_add(threads, std::memory_order_relaxed) >= qconv_cpu_fresh_fibers;
    for (unsigned thread = 0; thread < threads; ++thread) {
        threads_[thread].state = State::kNew;
        threads_[thread].has_arrived = false;
        additions_[thread].clear();
        free_stacks_[thread] = static_cast<uint16_t>(threads - 1 - thread);
        const unsigned of_thread[3] = {block[0] + thread / launch.threads, block[1], block[2]};
        renew_fiber(threads_[thread].context, keep_fibers, of_thread, thread % launch.threads);
    }
    free_count_ = threads;
    returned_ = ready_count_ = 0;
    std::fill_n(returned_of_, launch.cluster, 0u);
    for (Meeting& meeting : meetings_) meeting = Meeting{};
    of_cluster_ = Meeting{};
}

// The last thread of the ready stack runs first.
void Worker::ready(unsigned first, unsigned count) {
    const unsigned seed = launch_->seed;
    uint16_t* const places = ready_ + ready_count_;
    for (unsigned place = 0; place < count; ++place)
        places[place] = static_cast<uint16_t>(first + (seed == 0 ? count - 1 - place : place));
    for (unsigned place = seed < 2 ? 0 : count - 1; place > 0; --place)
        std::swap(places[place], places[random_.below(place + 1)]);
    ready_count_ += count;
}

void Worker::ready_warp(unsigned warp) {
    const unsigned first = warp << launch_->warp_shift, lanes = warps_[warp].lanes;
    // For lanes, a rotation in either direction is random enough, and it is cheap: exchanges are frequent.
    const unsigned rotation = launch_->seed < 2 ? 0 : random_.below(lanes);
    const bool ascending = launch_->seed == 0 || (rotation & 1) != 0;
    for (unsigned place = 0; place < lanes; ++place) {
        const unsigned lane = (ascending ? lanes - 1 - place : place) + rotation;
        ready_[ready_count_++] = static_cast<uint16_t>(first + (lane < lanes ? lane : lane - lanes));
    }
}

void Worker::start(unsigned thread) {
    const unsigned stack = free_stacks_[--free_count_];
    threads_[thread].state = State::kRunning;
    threads_[thread].stack = static_cast<uint16_t>(stack);
    prepare(threads_[thread].context, arena_.stack(stack), Arena::stack_bytes(stack), run_fiber);
}

// Makes the threads ready that wait in this state, at this mbarrier unless null.
inline void Worker::ready_those(State state, const void* mbarrier) {
    for (unsigned thread = 0; thread < launch_->all_threads(); ++thread) {
        const Thread& waiting = threads_[thread];
        if (waiting.state != state || (mbarrier != nullptr && waiting.mbarrier != mbarrier)) continue;
        threads_[thread].state = State::kRunning;
        ready(thread, 1);
    }
}

// With no thread ready, performs pending operations until one is.
void Worker::go_on() {
    while (ready_count_ == 0) {
        unsigned phases = 0;
        Mbarrier* const landed = engines_.land(random_, phases);
        if (landed != nullptr) {
            wake(*landed, phases);
            continue;
        }
        ready_those(State::kDependency, nullptr);
        if (ready_count_ == 0) report_deadlock();
        launch_->end_before();
        if (launch_->failed.load(std::memory_order_relaxed)) abandon_block();
    }
}

// Runs other threads until this one is on top of the ready stack.
inline void Worker::suspend() {
    engines_.note_writes(current, rank());
    if (ready_count_ == 0) go_on();
    const unsigned self = current, next = ready_[--ready_count_];
    if (next != self) {
        current = next;
        if (threads_[next].state == State::kNew) start(next);
        switch_context(threads_[self].context, threads_[next].context);
    }
    threads_[self].state = State::kRunning;
}

// A returning thread gives its stack to the next one if that has not started yet. A kernel without barriers
// thus runs on a single stack and never switches.
void Worker::run_threads() {
    enter_fiber(main_);
    happens_after(this);
    for (;;) {
        launch_->entry(launch_->arguments);
        end_thread();
        Thread& self = threads_[current];
        if (returned_ == launch_->all_threads()) switch_context(self.context, main_, true);
        if (ready_count_ == 0) go_on();
        Thread& next = threads_[current = ready_[--ready_count_]];
        if (next.state == State::kNew && !kThreadSanitizer) {
            next.state = State::kRunning;
            next.stack = self.stack;
            next.context = self.context;
            continue;
        }
        if (next.state == State::kNew) start(current);
        if (!kThreadSanitizer) free_stacks_[free_count_++] = self.stack;
        switch_context(self.context, next.context, true);
    }
}

// Ends a thread. The last of a block checks that no operation on its shared memory or tensor memory is
// pending.
void Worker::end_thread() {
    publish(current);
    engines_.note_writes(current, rank());
    threads_[current].state = State::kReturned;
    happens_before(launch_);
    ++returned_;
    if (++returned_of_[rank()] < launch_->threads) return;
    const char* const begin = shared().of(rank());
    const char* const end = begin + shared().bytes;
    const bool is_busy = engines_.is_busy(begin, end) || stores_.reads(begin, end);
    const char* const left = is_busy ? " ends while bytes are on their way to or from its shared memory"
                                     : engines_.tensor_memory.left_behind();
    if (left != nullptr) fail_block("block " + position(rank()) + left);
    stores_.finish(engines_, rank() * launch_->threads, launch_->threads);
    if (returned_ == launch_->all_threads() && engines_.expects_bytes())
        fail_block("at the end of block " + position(0) +
                   " bytes are missing that an mbarrier expects, or came that it did not expect");
}

inline void Worker::meet(unsigned index, unsigned first, unsigned count, int line) {
    Thread& self = threads_[current];
    Meeting& meeting = meetings_[index];
    self.state = State::kBarrier;
    self.line = line;
    if (meeting.waiting == 0) meeting.line = line;
    meeting.mixed = meeting.waiting != 0 && (meeting.mixed || line != meeting.line);
    // Two addresses alternate: a thread that is early at the next barrier must not be ordered before one that
    // is late to leave this one.
    void* const place = arena_.meeting(2 * index + (meeting.phase & 1));
    happens_before(place);
    if (++meeting.waiting == count) {
        if (meeting.mixed) report_deadlock();
        meeting.waiting = 0;
        ++meeting.phase;
        ready(first, count);
    }
    suspend();
    happens_after(place);
}

inline void Worker::barrier_of_team(unsigned team, unsigned threads, int line) {
    const unsigned first = rank() * launch_->threads;
    if (threads == 0 || launch_->threads % threads != 0 || (current - first) / threads != team)
        fail("a barrier of a team that this thread is not of", line);
    const unsigned of_cluster = first / threads + team;
    if (team >= kMaxTeams || of_cluster >= kMaxTeamsOfCluster)
        fail("a barrier of more teams than a block or a cluster may have", line);
    meet(kMaxBlocksOfCluster + of_cluster, first + team * threads, threads, line);
}

inline const void* Worker::exchange(const void* value, size_t bytes, int line) {
    const unsigned index = current >> launch_->warp_shift;
    const unsigned lane = current & ((1u << launch_->warp_shift) - 1);
    Warp& warp = warps_[index];
    if (bytes == 0 || bytes > kDepositBytes) {
        launch_->fail("warp exchange of " + std::to_string(bytes) + " bytes at line " + std::to_string(line) +
                      "; a lane deposits 1 to 64 bytes");
        abandon_block();
    }
    // Two sets of slots alternate: a lane that is early at the next exchange must not overwrite unread
    // deposits.
    char* const deposits = deposits_ + (kDepositBytes * (2 * index + warp.parity) << launch_->warp_shift);
    deposit(deposits + lane * kDepositBytes, value, bytes);

    Thread& self = threads_[current];
    self.state = State::kExchange;
    self.line = line;
    self.bytes = static_cast<uint16_t>(bytes);
    if (warp.arrived == 0) {
        warp.line = line;
        warp.bytes = self.bytes;
        warp.mixed = false;
    }
    warp.mixed |= line != warp.line || self.bytes != warp.bytes;
    happens_before(deposits);
    if (++warp.arrived == warp.lanes) {
        if (warp.mixed) report_deadlock();
        warp.arrived = 0;
        warp.parity ^= 1;
        ready_warp(index);
    }
    suspend();
    happens_after(deposits);
    return deposits;
}

void Worker::fail(const std::string& what, int line) {
    fail_block("line " + std::to_string(line) + ", thread " + std::to_string(thread_in_block()) +
               " of block " + position(rank()) + ": " + what);
}

void Worker::fail_block(const std::string& what) {
    launch_->fail(what);
    abandon_block();
}

void Worker::abandon_block() {
    switch_context(threads_[current].context, main_, true);
    __builtin_unreachable();
}

// Reports that no thread can proceed, or that all have arrived at different lines.
void Worker::report_deadlock() {
    const unsigned threads = launch_->all_threads(), warps = ((threads - 1) >> launch_->warp_shift) + 1;
    unsigned warp = current >> launch_->warp_shift;
    if (warps_[warp].arrived < warps_[warp].lanes)
        for (warp = 0; warp < warps && warps_[warp].arrived == 0;) ++warp;
    if (warp < warps)
        launch_->fail("divergent warp exchange in block " + position(rank()) + ", warp " +
                      std::to_string(warp) + ": " +
                      describe(threads_ + (warp << launch_->warp_shift), warps_[warp].lanes, " lanes"));
    else
        launch_->fail("divergent barrier in block " + position(0) + ": " +
                      describe(threads_, threads, " threads"));
    abandon_block();
}

std::string Worker::position(unsigned of_cluster) const {
    return "(" + std::to_string(block[0] + of_cluster) + "," + std::to_string(block[1]) + "," +
           std::to_string(block[2]) + ")";
}

}  // namespace
