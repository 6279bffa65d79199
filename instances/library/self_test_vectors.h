// What the self-test knows of each problem: inputs, parameters, and what an oracle computed from them. Generated vectors
// stand in self_test_vectors.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qconv_kernels.h"

struct SelfTestBlock {  // an array is this block again and again
    const char* bytes;
    size_t count;
};

struct SelfTestOutput {
    uint32_t crc;        // of all bytes
    const char* sample;  // of every `step`-th element, from the first on
    size_t count, step;
};

struct SelfTestCase {
    const char* key;
    const SelfTestBlock* arrays;  // the inputs, then the weights
    const qconv_parameter* parameters;
    size_t parameter_count;
    const SelfTestOutput* outputs;
};

extern const SelfTestCase self_test_cases[];
extern const size_t self_test_case_count;
