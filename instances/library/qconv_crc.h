// The CRC-32 of zlib.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace qconv_crc {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Tables for eight bytes at a time.
inline Tables made_tables() {
    Tables tables;
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xEDB88320u ^ (value >> 1) : value >> 1;
        tables[0][i] = value;
    }
    for (int at = 1; at < 8; ++at)
        for (uint32_t i = 0; i < 256; ++i)
            tables[at][i] = (tables[at - 1][i] >> 8) ^ tables[0][tables[at - 1][i] & 0xFF];
    return tables;
}

// Takes eight more bytes. Inlined where code is to be small, too.
__attribute__((always_inline)) inline uint32_t taken(const Tables& tables, uint32_t crc, const unsigned char* at) {
    uint32_t low, high;
    memcpy(&low, at, 4);
    memcpy(&high, at + 4, 4);
    low ^= crc;
    return tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^ tables[4][low >> 24] ^
           tables[3][high & 0xFF] ^ tables[2][high >> 8 & 0xFF] ^ tables[1][high >> 16 & 0xFF] ^ tables[0][high >> 24];
}

// The product of two polynomials modulo the checksum's. The highest bit is the coefficient of x^0.
inline uint32_t product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (; a != 0; a <<= 1) {
        if (a & 0x80000000u) sum ^= b;
        b = b & 1 ? 0xEDB88320u ^ (b >> 1) : b >> 1;
    }
    return sum;
}

// Takes zeros, which multiply by x^8 each.
inline uint32_t taken_zeros(uint32_t crc, uint64_t count) {
    for (uint32_t power = 0x00800000u; count > 0; count >>= 1, power = product(power, power))
        if (count & 1) crc = product(power, crc);
    return crc;
}

inline uint32_t of(const void* bytes, size_t count) {
    static const Tables tables = made_tables();
    uint32_t crc = 0xFFFFFFFFu;
    const auto* at = static_cast<const unsigned char*>(bytes);
    const unsigned char* const end = at + count;
    // Each table entry waits for the one before. Four quarters at a time are three times as fast; a checksum is linear.
    const size_t quarter = count / 32 * 8;
    if (count >= 4096) {
        uint32_t second = 0, third = 0, last = 0;
        for (const unsigned char* const stop = at + quarter; at != stop; at += 8) {
            crc = taken(tables, crc, at);
            second = taken(tables, second, at + quarter);
            third = taken(tables, third, at + 2 * quarter);
            last = taken(tables, last, at + 3 * quarter);
        }
        for (const uint32_t next : {second, third, last}) crc = taken_zeros(crc, quarter) ^ next;
        at += 3 * quarter;
    }
    for (; end - at >= 8; at += 8) crc = taken(tables, crc, at);
    for (; at != end; ++at) crc = tables[0][(crc ^ *at) & 0xFF] ^ (crc >> 8);
    return ~crc;
}

}  // namespace qconv_crc
