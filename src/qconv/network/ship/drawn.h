// Random inputs that are the same wherever they are drawn: vectors.py draws them too.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "qconv_network.h"

namespace drawn {

// A byte for each number: the high byte of splitmix64.
inline uint8_t byte_of(uint64_t seed, uint64_t number) {
    uint64_t z = seed * 0xD1342543DE82EF95u + (number + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<uint8_t>((z ^ (z >> 31)) >> 56);
}

template <typename Number>
void put(std::vector<char>& into, uint64_t at, Number number) {
    memcpy(&into[at * sizeof number], &number, sizeof number);
}

// Thirty-seconds of a byte with a sign, which float16 holds as well.
inline uint16_t half_of(int8_t eighth_bits) {
    if (eighth_bits == 0) return 0;
    unsigned magnitude = eighth_bits < 0 ? -static_cast<int>(eighth_bits) : eighth_bits;
    int exponent = 15 - 5 + 10;
    while (magnitude < 1024) magnitude *= 2, --exponent;
    return static_cast<uint16_t>((eighth_bits < 0 ? 0x8000 : 0) | exponent << 10 | (magnitude & 1023));
}

// Bytes are of their whole range, floats from -4 to 4, bools 0 or 1, and wider integers from 0 to 255.
inline std::vector<char> array(const qconv_network_tensor& tensor, uint64_t seed) {
    const std::string type = tensor.type;
    std::vector<char> made(tensor.bytes);
    uint64_t count = 1;
    for (unsigned axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
    for (uint64_t i = 0; i < count; ++i) {
        const uint8_t byte = byte_of(seed, i);
        const auto with_sign = static_cast<int8_t>(byte);
        if (type == "float32") put(made, i, static_cast<float>(with_sign) / 32);
        else if (type == "float64") put(made, i, static_cast<double>(with_sign) / 32);
        else if (type == "float16") put(made, i, half_of(with_sign));
        else if (type == "bool") put(made, i, static_cast<uint8_t>(byte & 1));
        else if (tensor.bytes == count) put(made, i, byte);
        else if (tensor.bytes == 2 * count) put(made, i, static_cast<uint16_t>(byte));
        else if (tensor.bytes == 4 * count) put(made, i, static_cast<uint32_t>(byte));
        else put(made, i, static_cast<uint64_t>(byte));
    }
    return made;
}

}  // namespace drawn
