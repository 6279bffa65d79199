// A launch: the kernel and its grid, the next block to run, and the first error; and random numbers that are
// the same on every machine. Private to cpu_runtime.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "cpu_runtime.h"

namespace {

constexpr unsigned kMaxThreads = 4096, kMaxBlocksOfCluster = 16;  // per cluster

struct Launch {
    qconv_cpu_entry_t entry = nullptr;
    const void* arguments = nullptr;
    const qconv_cpu_grid* before = nullptr;
    std::once_flag before_once;
    unsigned grid[3] = {};
    unsigned threads = 0, cluster = 1, warp_shift = 0, seed = 0;
    size_t shared_bytes = 0;
    uint64_t clusters = 0;
    std::atomic<uint64_t> next_cluster{0};
    std::atomic<bool> failed{false};
    std::atomic<uint64_t> fibers{0};
    std::mutex message_mutex;
    std::string message;

    void fail(const std::string& reason) {  // only the first reason is reported
        const std::lock_guard<std::mutex> lock(message_mutex);
        if (message.empty()) message = reason;
        failed.store(true, std::memory_order_relaxed);
    }

    bool is_late() const { return seed % 2 == 0; }
    unsigned all_threads() const { return cluster * threads; }  // per cluster

    // Runs the previous launch unless that was done. Returns when it has ended.
    void end_before() {
        std::call_once(before_once, [this] {
            if (before == nullptr) return;
            // On a new thread, because the caller may be a fiber with a small stack.
            std::thread([this] {
                char text[1024] = "";
                if (qconv_cpu_launch(before, text, sizeof text) != 0) fail(text);
            }).join();
        });
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
