// The arrays of a library's self-test, on a device. Whoever uses them ends the process at the first failure, and frees
// nothing.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "qconv_kernels.h"
#include "self_test_vectors.h"

inline void check(qconv_status status) {
    if (status == QCONV_OK) return;
    fprintf(stderr, "%s: %s\n", qconv_status_text(status), qconv_last_error());
    exit(2);
}

inline std::vector<char> filled(const SelfTestBlock& block, size_t bytes) {
    std::vector<char> array(bytes);
    for (size_t at = 0; at < bytes; at += block.count)
        memcpy(&array[at], block.bytes, block.count < bytes - at ? block.count : bytes - at);
    return array;
}

inline void* uploaded(qconv_device* device, const std::vector<char>& content) {
    void* memory = nullptr;
    check(qconv_allocate(device, content.size(), &memory));
    check(qconv_upload(device, memory, content.data(), content.size()));
    return memory;
}
