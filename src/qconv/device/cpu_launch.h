// A launch: what is to be run, which block is next, and the first reason to stop; and random numbers that are
// the same on every machine. Private to cpu_runtime.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "cpu_runtime.h"

namespace {

struct Launch {
    qconv_cpu_entry_t entry = nullptr;
    const void* arguments = nullptr;
    unsigned grid[3] = {};
    unsigned threads = 0, warp_shift = 0, seed = 0;
    size_t shared_bytes = 0;
    uint64_t blocks = 0;
    std::atomic<uint64_t> next_block{0};
    std::atomic<bool> failed{false};
    std::atomic<uint64_t> fibers{0};
    std::mutex message_mutex;
    std::string message;

    void fail(const std::string& reason) {  // the first reason is the one to report
        const std::lock_guard<std::mutex> lock(message_mutex);
        if (message.empty()) message = reason;
        failed.store(true, std::memory_order_relaxed);
    }
};

struct Random {  // splitmix64
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    unsigned below(unsigned limit) { return static_cast<unsigned>((next() >> 32) * limit >> 32); }
};

}  // namespace
