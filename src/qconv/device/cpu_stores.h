// Asynchronous stores of tiles from shared to device memory. A launch is early or late, as in cpu_engines.h:
// in a late one, a store reads when a thread waits for its reads, and writes when its block ends. Private to
// cpu_runtime.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "cpu_context.h"
#include "cpu_engines.h"

namespace {

struct Store {
    const char* from;
    char* to;
    unsigned bytes, group;
    bool is_read;
    char value[kMostStored];
};

class Stores {
  public:
    void store(const Engines& engines, unsigned thread, const char* from, char* to, unsigned bytes);
    void commit(unsigned thread);
    // Returns when at most `groups` of the thread's latest groups are outstanding.
    void wait(const Engines& engines, unsigned thread, unsigned groups, bool for_writes);
    // True while a pending store has yet to read these bytes.
    bool reads(const char* begin, const char* end) const;
    // Completes the stores of these threads, at the end of their block.
    void finish(const Engines& engines, unsigned first, unsigned count);
    void clear();

  private:
    struct OfThread {
        unsigned groups = 0;  // committed
        std::vector<Store> pending{};
        Observer observer{};
    };

    OfThread& of(unsigned thread);
    static void read(const Engines& engines, OfThread& own, Store& store);
    std::vector<OfThread> threads_;  // of the cluster; empty until one of them stores
};

Stores::OfThread& Stores::of(unsigned thread) {
    const Unobserved unobserved;
    if (threads_.empty()) threads_.resize(kMaxThreads);
    return threads_[thread];
}

void Stores::read(const Engines& engines, OfThread& own, Store& store) {
    if (store.is_read) return;
    store.is_read = true;
    observe_copy(own.observer, &own, store.from, store.to, store.bytes);
    memcpy(store.value, engines.view(store.from), store.bytes);
}

void Stores::store(const Engines& engines, unsigned thread, const char* from, char* to, unsigned bytes) {
    check_access(from, to, bytes);
    const Unobserved unobserved;
    OfThread& own = of(thread);
    happens_before(&own.observer);
    own.pending.push_back({from, to, bytes, own.groups, false, {}});
    if (engines.late()) return;
    read(engines, own, own.pending.back());
    memcpy(to, own.pending.back().value, bytes);
    own.pending.pop_back();
}

void Stores::commit(unsigned thread) { ++of(thread).groups; }

void Stores::wait(const Engines& engines, unsigned thread, unsigned groups, bool for_writes) {
    OfThread& own = of(thread);
    {
        const Unobserved unobserved;
        std::vector<Store> left;
        for (Store& store : own.pending) {
            const bool is_waited_for = store.group + groups < own.groups;
            if (is_waited_for) read(engines, own, store);
            if (is_waited_for && for_writes) memcpy(store.to, store.value, store.bytes);
            else left.push_back(store);
        }
        own.pending.swap(left);
    }
    happens_after(&own);
}

bool Stores::reads(const char* begin, const char* end) const {
    for (const OfThread& own : threads_)
        for (const Store& store : own.pending)
            if (!store.is_read && store.from >= begin && store.from < end) return true;
    return false;
}

void Stores::finish(const Engines& engines, unsigned first, unsigned count) {
    if (threads_.empty()) return;
    for (unsigned thread = first; thread < first + count; ++thread) {
        commit(thread);
        wait(engines, thread, 0, true);
    }
}

void Stores::clear() {
    for (OfThread& own : threads_) drop_observer(own.observer);
    threads_.clear();
}

}  // namespace
