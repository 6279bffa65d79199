// The threads of a cluster in flight, their meeting points, and descriptions of waits for messages. Private
// to cpu_runtime.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cpu_context.h"

namespace {

enum class State : uint8_t { kNew, kRunning, kBarrier, kExchange, kCluster, kBytes, kDependency, kReturned };

struct Thread {
    Context context;
    const void* mbarrier;    // that it waits for
    unsigned cluster_phase;  // of its arrival at the cluster barrier
    int line;                // of the call at which it waits
    uint16_t bytes;          // that it deposits
    uint16_t stack;
    State state;
    bool has_arrived;  // at the cluster barrier, without a wait since
};

struct Warp {
    unsigned arrived, lanes, parity;
    int line;
    uint16_t bytes;
    bool mixed;  // a later lane differs from the first in line or bytes
};

// The barrier of a block, of one of its teams, or of a cluster.
struct Meeting {
    unsigned waiting, phase;
    int line;
    bool mixed;  // a later thread differs from the first in line
};

// An addition that other blocks do not see yet.
struct Addition {
    int* address;
    int value;
};

inline void deposit(char* slot, const void* value, size_t bytes) {
#if !defined(QCONV_SANITIZE_ADDRESS) && !defined(QCONV_SANITIZE_THREAD)  // which watch calls of memcpy
    if (bytes == 4) return static_cast<void>(memcpy(slot, value, 4));
    if (bytes == 8) return static_cast<void>(memcpy(slot, value, 8));
    if (bytes == 16) return static_cast<void>(memcpy(slot, value, 16));
#endif
    memcpy(slot, value, bytes);
}

inline std::string wait_of(const Thread& thread) {
    std::string what = thread.state == State::kBytes     ? " wait for bytes at line "
                       : thread.state == State::kCluster ? " wait for the cluster at line "
                                                         : " wait at line ";
    what += std::to_string(thread.line);
    if (thread.state == State::kExchange) what += " to exchange " + std::to_string(thread.bytes) + " bytes";
    return what;
}

// Returns text such as "32 of 64 threads wait at line 120, 32 have returned".
inline std::string describe(const Thread* threads, unsigned count, const char* unit) {
    struct Group {
        std::string what;
        unsigned count;
    };
    std::vector<Group> groups;
    unsigned returned = 0;
    for (const Thread* thread = threads; thread < threads + count; ++thread) {
        if (thread->state == State::kReturned) {
            ++returned;
            continue;
        }
        const std::string what = wait_of(*thread);
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
