// Asynchronous operations on the shared memory of a cluster: copies and stores, the mbarriers that count their
// bytes, and the async proxy, which sees a thread's writes only after its fence. Private to cpu_runtime.cpp.
//
// A launch is early or late. In an early launch, a copy completes when it is issued, and the async proxy sees
// what threads see. In a late one, a copy reads and writes only when no thread can proceed without it, and a
// fence shows the async proxy only the thread's own writes. These are the extremes that the memory model allows.
//
// Stricter than PTX: a fence by another thread after a barrier has no effect. Not modelled: a fence between
// reads of threads and a copy over the bytes read; `relaxed` cluster barriers, which are treated as ordering;
// and asynchronous wgmma, which is computed when it is issued. Products in tensor memory are in
// cpu_tensor_memory.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "cpu_arena.h"
#include "cpu_context.h"
#include "cpu_launch.h"
#include "cpu_tensor_memory.h"

namespace {

constexpr unsigned kMostStored = 16;  // bytes per asynchronous store

struct Copy {
    char* to;
    const char* from;  // null: `value`
    unsigned bytes;
    char value[kMostStored];
};

struct Mbarrier {
    const void* address;
    unsigned expected;     // arrivals per phase
    unsigned phases = 0;   // completed
    unsigned arrived = 0;  // in the current phase
    long bytes = 0;        // expected and not arrived; negative if bytes came first
    unsigned waiting = 0;  // waiting threads
    std::vector<Copy> pending{};
    Observer observer{};
};

class Engines {
  public:
    void begin(const Shared& shared, bool late);
    void end();
    bool late() const { return late_; }

    // These return null, or an error message.
    const char* init(void* address, unsigned arrivals);
    const char* arrive(Mbarrier& barrier, unsigned bytes);
    void copy(Mbarrier& barrier, const Copy& copy);
    Mbarrier* at(const void* address);  // null: no mbarrier there

    // Performs one copy that a thread waits for, or else products and the arrival of their commit. Returns
    // the mbarrier, with the phases that it had completed before, or null if nothing is pending.
    Mbarrier* land(Random& random, unsigned& phases);
    // True while a pending copy reads or writes these bytes.
    bool is_busy(const char* begin, const char* end) const;
    bool expects_bytes() const;

    // From here on, tracks which thread writes which byte of shared memory. No thread has written yet.
    void watch();
    void note_writes(unsigned thread, unsigned block) {
        if (watches_) note(thread, block);
    }
    void fence(unsigned thread, unsigned block);
    // Returns where the async proxy's view of `address` is stored.
    const char* view(const void* address) const;

    // These return null, or an error message.
    const char* multiply(unsigned thread, const Product& product);
    const char* commit(unsigned thread, Mbarrier& barrier);
    TensorMemory tensor_memory;

  private:
    void note(unsigned thread, unsigned block);
    void perform(Mbarrier& barrier, const Copy& copy);
    size_t index_of(const void* address) const;
    void complete(Mbarrier& barrier);

    Shared shared_{};
    bool late_ = false, watches_ = false;
    std::vector<std::unique_ptr<Mbarrier>> mbarriers_;
    // Per byte of shared memory: its value at the last comparison, its value in the async proxy's view, and
    // the thread (counted from 1) that has written it without a fence.
    std::vector<char> known_, seen_;
    std::vector<uint16_t> writer_;
    // Per thread: the starts of vectors of `kAtOnce` bytes that it has written without a fence.
    static constexpr size_t kAtOnce = 128;
    std::vector<std::set<size_t>> wrote_;
};

void Engines::begin(const Shared& shared, bool late) {
    shared_ = shared;
    late_ = late;
    watches_ = false;
    end();
    tensor_memory.begin(shared, late);
}

void Engines::end() {
    for (const auto& barrier : mbarriers_) drop_observer(barrier->observer);
    mbarriers_.clear();
    tensor_memory.end();
}

Mbarrier* Engines::at(const void* address) {
    for (const auto& barrier : mbarriers_)
        if (barrier->address == address) return barrier.get();
    return nullptr;
}

const char* Engines::init(void* address, unsigned arrivals) {
    if (at(address) != nullptr) return "an mbarrier is initialised twice";
    if (shared_.block_of(address) < 0) return "an mbarrier that does not lie in shared memory";
    observe_write(address, sizeof(uint64_t));
    const Unobserved unobserved;
    mbarriers_.push_back(std::make_unique<Mbarrier>(Mbarrier{address, arrivals}));
    return nullptr;
}

void Engines::complete(Mbarrier& barrier) {
    if (barrier.arrived < barrier.expected || barrier.bytes != 0) return;
    barrier.arrived = 0;
    ++barrier.phases;
}

const char* Engines::arrive(Mbarrier& barrier, unsigned bytes) {
    if (barrier.arrived == barrier.expected)
        return "bytes are expected before those of the last phase have come";
    ++barrier.arrived;
    barrier.bytes += bytes;
    happens_before(&barrier);
    complete(barrier);
    return nullptr;
}

void Engines::copy(Mbarrier& barrier, const Copy& copy) {
    happens_before(&barrier.observer);
    check_access(copy.from, copy.to, copy.bytes);
    if (!late_) return perform(barrier, copy);
    const Unobserved unobserved;
    barrier.pending.push_back(copy);
}

void Engines::perform(Mbarrier& barrier, const Copy& copy) {
    const Unobserved unobserved;
    observe_copy(barrier.observer, &barrier, copy.from, copy.to, copy.bytes);
    memcpy(copy.to, copy.from != nullptr ? view(copy.from) : copy.value, copy.bytes);
    if (watches_) {
        const size_t at = index_of(copy.to);
        memcpy(&known_[at], copy.to, copy.bytes);
        memcpy(&seen_[at], copy.to, copy.bytes);
        std::fill_n(&writer_[at], copy.bytes, uint16_t{0});
    }
    barrier.bytes -= copy.bytes;
    complete(barrier);
}

Mbarrier* Engines::land(Random& random, unsigned& phases) {
    for (const auto& barrier : mbarriers_) {
        std::vector<Copy>& pending = barrier->pending;
        if (barrier->waiting == 0 || pending.empty()) continue;
        std::swap(pending[random.below(static_cast<unsigned>(pending.size()))], pending.back());
        const Copy next = pending.back();
        pending.pop_back();
        phases = barrier->phases;
        perform(*barrier, next);
        return barrier.get();
    }
    const auto waited = [](const void* barrier) { return static_cast<const Mbarrier*>(barrier)->waiting > 0; };
    void* const next = tensor_memory.next(waited, [this](const void* address) { return view(address); });
    if (next == nullptr) return nullptr;
    Mbarrier& committed = *static_cast<Mbarrier*>(next);
    phases = committed.phases;
    act_as(tensor_memory.observer(), "products in tensor memory", [&] { arrive(committed, 0); });
    return &committed;
}

const char* Engines::multiply(unsigned thread, const Product& product) {
    return tensor_memory.multiply(thread, product, [this](const void* address) { return view(address); });
}

// In a late launch, `land` performs the arrival.
const char* Engines::commit(unsigned thread, Mbarrier& barrier) {
    const char* wrong = tensor_memory.commit(thread, &barrier);
    if (wrong != nullptr || late_) return wrong;
    act_as(tensor_memory.observer(), "products in tensor memory", [&] { wrong = arrive(barrier, 0); });
    return wrong;
}

bool Engines::is_busy(const char* begin, const char* end) const {
    const auto lies_there = [=](const char* at) { return at >= begin && at < end; };
    for (const auto& barrier : mbarriers_)
        for (const Copy& copy : barrier->pending)
            if (lies_there(copy.to) || lies_there(copy.from)) return true;
    return false;
}

bool Engines::expects_bytes() const {
    for (const auto& barrier : mbarriers_)
        if (barrier->bytes != 0) return true;
    return false;
}

size_t Engines::index_of(const void* address) const {
    const unsigned block = static_cast<unsigned>(shared_.block_of(address));
    return block * shared_.bytes + static_cast<size_t>(static_cast<const char*>(address) - shared_.of(block));
}

void Engines::watch() {
    if (!late_ || watches_) return;
    watches_ = true;
    const Unobserved unobserved;
    known_.resize(shared_.blocks * shared_.bytes);
    for (unsigned block = 0; block < shared_.blocks; ++block)
        memcpy(known_.data() + block * shared_.bytes, shared_.of(block), shared_.bytes);
    seen_ = known_;
    writer_.assign(known_.size(), 0);
    wrote_.assign(kMaxThreads, {});
}

// Called at the end of a thread's turn, in which no other thread has written to its block's memory.
void Engines::note(unsigned thread, unsigned block) {
    const Unobserved unobserved;
    const char* const now = shared_.of(block);
    char* const known = known_.data() + block * shared_.bytes;
    if (memcmp(now, known, shared_.bytes) == 0) return;  // the usual case
    for (size_t first = 0; first < shared_.bytes; first += kAtOnce) {
        const size_t end = std::min(first + kAtOnce, shared_.bytes);
        if (memcmp(now + first, known + first, end - first) == 0) continue;
        for (size_t at = first; at < end; ++at) {
            if (now[at] == known[at]) continue;
            known[at] = now[at];
            writer_[block * shared_.bytes + at] = static_cast<uint16_t>(thread + 1);
        }
        wrote_[thread].insert(first);
    }
}

void Engines::fence(unsigned thread, unsigned block) {
    note_writes(thread, block);
    if (!watches_) return;
    const Unobserved unobserved;
    for (const size_t first : wrote_[thread]) {
        const size_t begin = block * shared_.bytes + first, end = begin + std::min(kAtOnce, shared_.bytes - first);
        for (size_t at = begin; at < end; ++at) {
            if (writer_[at] != thread + 1) continue;
            seen_[at] = known_[at];
            writer_[at] = 0;
        }
    }
    wrote_[thread].clear();
}

const char* Engines::view(const void* address) const {
    const bool is_shared = watches_ && shared_.block_of(address) >= 0;
    return is_shared ? &seen_[index_of(address)] : static_cast<const char*>(address);
}

}  // namespace
