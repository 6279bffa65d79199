// The worker that runs a launch's blocks one after the other: the order of threads, barriers, warp exchanges,
// and what is said when they diverge. Private to cpu_runtime.cpp.
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
#include "cpu_launch.h"

namespace {

constexpr unsigned kMaxThreads = 1024, kMaxTeams = 15;
// ThreadSanitizer takes a third of a millisecond to make a fiber. After this many in a launch they are kept
// from block to block; then races between two blocks are seen only where the blocks have different workers.
constexpr unsigned kFreshFibers = 4096;

inline void deposit(char* slot, const void* value, size_t bytes) {
#if !defined(QCONV_SANITIZE_ADDRESS) && !defined(QCONV_SANITIZE_THREAD)  // they watch calls of memcpy
    if (bytes == 4) return static_cast<void>(memcpy(slot, value, 4));
    if (bytes == 8) return static_cast<void>(memcpy(slot, value, 8));
    if (bytes == 16) return static_cast<void>(memcpy(slot, value, 16));
#endif
    memcpy(slot, value, bytes);
}

enum class State : uint8_t { kNew, kRunning, kBarrier, kExchange, kTold, kReturned };

struct Thread {
    Context context;
    const void* object;  // which it waits to be told of
    int line;            // where it waits
    uint16_t bytes;      // what it deposits
    uint16_t stack;
    State state;
};

struct Warp {
    unsigned arrived, lanes, parity;
    int line;
    uint16_t bytes;
    bool mixed;  // a later lane disagrees with the first on line or bytes
};

// Where the threads of a block meet, or those of one of its teams.
struct Meeting {
    unsigned waiting, phase;
    int line;
    bool mixed;  // a later thread disagrees with the first on the line
};

// One block in flight. The ready threads form a stack: a finished exchange puts its lanes on top, so that a
// warp runs as far as it can before the next one, which is the order that shows missing barriers.
class Worker {
  public:
    void run(Launch& launch);
    void barrier(int line) { meet(0, 0, launch_->threads, line); }
    void barrier_of_team(unsigned team, unsigned threads, int line);
    const void* exchange(const void* value, size_t bytes, int line);
    void wait_to_be_told(const void* object, int line);
    void tell(const void* object);
    [[noreturn]] void fail(const char* what, int line);
    int threads() const { return static_cast<int>(launch_->threads); }
    bool defers_copies() const { return launch_->seed % 2 == 0; }
    void run_threads();  // on a fiber: the threads that its stack serves, one after the other

    unsigned current = 0;  // the thread whose turn it is
    unsigned block[3] = {};
    char* shared = nullptr;

  private:
    void run_block(uint64_t linear);
    void meet(unsigned index, unsigned first, unsigned count, int line);
    void ready(unsigned first, unsigned count);
    void ready_warp(unsigned warp);
    void start(unsigned thread);
    void suspend();
    [[noreturn]] void abandon_block();
    [[noreturn]] void report_deadlock();
    std::string describe(unsigned first, unsigned count, const char* unit) const;
    std::string position() const;

    Launch* launch_ = nullptr;
    Arena arena_;
    Context main_{};  // the OS thread's own stack
    Random random_{0};
    char* deposits_ = nullptr;
    unsigned ready_count_ = 0, free_count_ = 0, returned_ = 0;
    Meeting meetings_[1 + kMaxTeams] = {};  // the block's, then the teams'
    uint16_t ready_[kMaxThreads], free_stacks_[kMaxThreads];
    Warp warps_[kMaxThreads / 32];
    Thread threads_[kMaxThreads] = {};
};

// The worker that runs on this OS thread. One pointer fits in the static TLS space that glibc keeps for
// libraries which are loaded late; that makes it a single load. Elsewhere the general way is needed.
#if defined(__GLIBC__)
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
        const uint64_t turn = launch.next_block.fetch_add(1, std::memory_order_relaxed);
        if (turn >= launch.blocks) break;
        if (!arena_.reserve(launch.threads, launch.shared_bytes)) {
            launch.fail(std::string("cannot map the stacks and shared memory of a block: ") +
                        strerror(errno) +
                        "; use fewer workers, or raise vm.max_map_count (two mappings per thread)");
            break;
        }
        run_block(launch.seed == 1 ? launch.blocks - 1 - turn : turn);
        if (kThreadSanitizer) arena_.release();
    }
    for (Thread& thread : threads_) drop_fiber(thread.context);
    worker = nullptr;
}

void Worker::run_block(uint64_t linear) {
    const Launch& launch = *launch_;
    block[0] = static_cast<unsigned>(linear % launch.grid[0]);
    block[1] = static_cast<unsigned>(linear / launch.grid[0] % launch.grid[1]);
    block[2] = static_cast<unsigned>(linear / launch.grid[0] / launch.grid[1]);
    random_.state = linear * 0xD1342543DE82EF95u + launch.seed;
    shared = arena_.shared();
    deposits_ = arena_.deposits();
    const int poison = 0xCD ^ static_cast<int>(random_.next() & 0x3F);  // never 0: the top bits stay
    memset(shared, poison, launch.shared_bytes);

    const unsigned warp_size = 1u << launch.warp_shift;
    for (unsigned first = 0; first < launch.threads; first += warp_size) {
        const unsigned rest = launch.threads - first;
        warps_[first >> launch.warp_shift] = Warp{0, rest < warp_size ? rest : warp_size, 0, 0, 0, false};
    }
    const bool keep_fibers =
        launch_->fibers.fetch_add(launch.threads, std::memory_order_relaxed) >= kFreshFibers;
    for (unsigned thread = 0; thread < launch.threads; ++thread) {
        threads_[thread].state = State::kNew;
        free_stacks_[thread] = static_cast<uint16_t>(launch.threads - 1 - thread);
        renew_fiber(threads_[thread].context, keep_fibers, block, thread);
    }
    free_count_ = launch.threads;
    returned_ = ready_count_ = 0;
    for (Meeting& meeting : meetings_) meeting = Meeting{};
    ready(0, launch.threads);
    current = ready_[--ready_count_];
    start(current);
    happens_before(this);
    switch_context(main_, threads_[current].context);
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
    // A rotation in either direction is random enough for lanes, and cheap: there are many exchanges.
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

// Lets others run until this thread is on top of the ready stack.
inline void Worker::suspend() {
    if (ready_count_ == 0) report_deadlock();
    const unsigned self = current, next = ready_[--ready_count_];
    if (next != self) {
        current = next;
        if (threads_[next].state == State::kNew) start(next);
        switch_context(threads_[self].context, threads_[next].context);
    }
    threads_[self].state = State::kRunning;
}

// A thread that returns hands its stack to the next one if that has not started yet: a kernel without
// barriers runs on a single stack and never switches.
void Worker::run_threads() {
    enter_fiber(main_);
    happens_after(this);
    for (;;) {
        launch_->entry(launch_->arguments);
        Thread& self = threads_[current];
        self.state = State::kReturned;
        happens_before(launch_);
        if (++returned_ == launch_->threads) switch_context(self.context, main_, true);
        if (ready_count_ == 0) report_deadlock();
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

inline void Worker::meet(unsigned index, unsigned first, unsigned count, int line) {
    Thread& self = threads_[current];
    Meeting& meeting = meetings_[index];
    self.state = State::kBarrier;
    self.line = line;
    if (meeting.waiting == 0) meeting.line = line;
    meeting.mixed = meeting.waiting != 0 && (meeting.mixed || line != meeting.line);
    // Two places by turns: a thread that is early at the next barrier must not order one that is late to
    // leave this.
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
    if (threads == 0 || launch_->threads % threads != 0 || current / threads != team || team >= kMaxTeams)
        fail("a barrier of a team that this thread is not of", line);
    meet(1 + team, team * threads, threads, line);
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
    // Two sets by turns: a lane that is early at the next exchange must not overwrite what others still read.
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

inline void Worker::wait_to_be_told(const void* object, int line) {
    Thread& self = threads_[current];
    self.state = State::kTold;
    self.object = object;
    self.line = line;
    suspend();
}

inline void Worker::tell(const void* object) {
    for (unsigned thread = 0; thread < launch_->threads; ++thread) {
        if (threads_[thread].state != State::kTold || threads_[thread].object != object) continue;
        threads_[thread].object = nullptr;
        ready(thread, 1);
    }
}

void Worker::fail(const char* what, int line) {
    launch_->fail("line " + std::to_string(line) + ", thread " + std::to_string(current) + " of block " +
                  position() + ": " + what);
    abandon_block();
}

void Worker::abandon_block() {
    switch_context(threads_[current].context, main_, true);
    __builtin_unreachable();
}

// No thread can go on, or all have arrived and disagree.
void Worker::report_deadlock() {
    unsigned warp = current >> launch_->warp_shift;
    const unsigned warps = ((launch_->threads - 1) >> launch_->warp_shift) + 1;
    if (warps_[warp].arrived < warps_[warp].lanes)
        for (warp = 0; warp < warps && warps_[warp].arrived == 0;) ++warp;
    if (warp < warps)
        launch_->fail("divergent warp exchange in block " + position() + ", warp " + std::to_string(warp) +
                      ": " + describe(warp << launch_->warp_shift, warps_[warp].lanes, " lanes"));
    else
        launch_->fail("divergent barrier in block " + position() + ": " +
                      describe(0, launch_->threads, " threads"));
    abandon_block();
}

std::string Worker::position() const {
    return "(" + std::to_string(block[0]) + "," + std::to_string(block[1]) + "," + std::to_string(block[2]) +
           ")";
}

// "32 of 64 threads wait at line 120, 32 have returned"
std::string Worker::describe(unsigned first, unsigned count, const char* unit) const {
    struct Group {
        std::string what;
        unsigned count;
    };
    std::vector<Group> groups;
    unsigned returned = 0;
    for (unsigned index = first; index < first + count; ++index) {
        const Thread& thread = threads_[index];
        if (thread.state == State::kReturned) {
            ++returned;
            continue;
        }
        std::string what = thread.state == State::kTold ? " wait to be told at line " : " wait at line ";
        what += std::to_string(thread.line);
        if (thread.state == State::kExchange)
            what += " to exchange " + std::to_string(thread.bytes) + " bytes";
        size_t group = 0;
        while (group < groups.size() && groups[group].what != what) ++group;
        if (group == groups.size()) groups.push_back({what, 0});
        ++groups[group].count;
    }
    if (returned > 0) groups.push_back({" have returned", returned});
    std::string text;
    for (const Group& group : groups) {
        text += (text.empty() ? "" : ", ") + std::to_string(group.count);
        if (&group == &groups[0]) text += " of " + std::to_string(count) + unit;
        text += group.what;
    }
    return text;
}

}  // namespace
