// The vectors of the self-test per problem: inputs, parameters, and the outputs computed by an oracle. The generated
// data is in self_test_vectors.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qconv_kernels.h"

// An array consists of repetitions of this block.
struct SelfTestBlock {
    const char* bytes;
    size_t count;
};

struct SelfTestOutput {
    uint32_t crc;        // of all bytes
    const char* sample;  // every `step`-th element, from the first one
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
