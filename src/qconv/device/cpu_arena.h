// The memory of a cluster in flight: the shared memory of its blocks, its warps' exchange slots and its
// threads' stacks. Private to cpu_runtime.cpp.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "cpu_context.h"

namespace {

constexpr size_t kDepositBytes = 64;
constexpr size_t kRedzoneBytes = 16 << 10;
constexpr size_t kStaggerBytes = 192;

// The shared memory of a cluster's blocks, `pitch` bytes apart.
struct Shared {
    char* first;
    size_t bytes, pitch;
    unsigned blocks;

    char* of(unsigned block) const { return first + block * pitch; }
    int block_of(const void* address) const {  // -1: not in any
        const ptrdiff_t at = static_cast<const char*>(address) - first;
        const bool is_there = at >= 0 && at / pitch < blocks && at % pitch < bytes;
        return is_there ? static_cast<int>(at / pitch) : -1;
    }
};

// One mapping for a cluster: redzone, shared memory and redzone of each block, two exchange slots per thread,
// and stacks, each above a guard page. Its worker keeps and reuses it while it is large enough.
class Arena {
  public:
    ~Arena() { release(); }
    void release();
    bool reserve(unsigned threads, size_t shared_bytes, unsigned blocks);  // false: out of memory, see errno
    void* meeting(unsigned phase) const { return base_ + 64 * phase; }  // an address for ThreadSanitizer
    const Shared& shared() const { return shared_; }
    char* deposits() const { return base_ + deposits_at_; }
    // The stacks end at different offsets in their pages. At the same offset, their most used lines would
    // compete for a few sets of the L1 cache.
    char* stack(unsigned index) const { return base_ + stacks_at_ + index * stack_pitch_ + page_; }
    static size_t stack_bytes(unsigned index) { return kStackBytes + kStaggerBytes * (index % 32); }

  private:
    void mark_redzones();
    Shared shared_{};
    char* base_ = nullptr;
    size_t bytes_ = 0, page_ = 0, stack_pitch_ = 0, deposits_at_ = 0, stacks_at_ = 0, shared_capacity_ = 0;
    unsigned threads_ = 0;
};

bool Arena::reserve(unsigned threads, size_t shared_bytes, unsigned blocks) {
    const size_t pitch = (shared_bytes + 1023) / 1024 * 1024 + kRedzoneBytes;
    if (base_ == nullptr || threads > threads_ || blocks * pitch > shared_capacity_) {
        release();
        page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        const auto whole_pages = [this](size_t bytes) { return (bytes + page_ - 1) / page_ * page_; };
        // The largest sizes requested so far, so that alternating kernels do not remap it every time.
        threads_ = std::max(threads, threads_);
        shared_capacity_ = std::max(whole_pages(blocks * pitch), shared_capacity_);
        deposits_at_ = whole_pages(kRedzoneBytes + shared_capacity_);
        const size_t partial_warp = 63;
        stacks_at_ = deposits_at_ + whole_pages(2 * kDepositBytes * (threads_ + partial_warp));
        stack_pitch_ = page_ + whole_pages(stack_bytes(31));
        bytes_ = stacks_at_ + threads_ * stack_pitch_;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory != MAP_FAILED) base_ = static_cast<char*>(memory);
        bool guarded = base_ != nullptr;
        for (unsigned index = 0; guarded && index < threads_; ++index)
            guarded = mprotect(stack(index) - page_, page_, PROT_NONE) == 0;
        if (!guarded) {
            const int reason = errno;
            release();
            threads_ = 0;  // a smaller request may still succeed
            shared_capacity_ = 0;
            errno = reason;
            return false;
        }
    }
    shared_ = {base_ + kRedzoneBytes, shared_bytes, pitch, blocks};
    mark_redzones();
    return true;
}

void Arena::mark_redzones() {
#if defined(QCONV_SANITIZE_ADDRESS)
    __asan_poison_memory_region(base_, deposits_at_);
    for (unsigned block = 0; block < shared_.blocks; ++block)
        __asan_unpoison_memory_region(shared_.of(block), shared_.bytes);
#endif
}

void Arena::release() {
    if (base_ == nullptr) return;
#if defined(QCONV_SANITIZE_ADDRESS)
    __asan_unpoison_memory_region(base_, deposits_at_);
#endif
    munmap(base_, bytes_);
    base_ = nullptr;
}

}  // namespace
