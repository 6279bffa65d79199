// The CRC-32 of zlib.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

inline uint32_t of(const void* bytes, size_t count) {
    static const Tables tables = made_tables();
    uint32_t crc = 0xFFFFFFFFu;
    const auto* at = static_cast<const unsigned char*>(bytes);
    const unsigned char* const end = at + count;
    for (; end - at >= 8; at += 8) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + 4, 4);
        low ^= crc;
        crc = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^ tables[4][low >> 24] ^
              tables[3][high & 0xFF] ^ tables[2][high >> 8 & 0xFF] ^ tables[1][high >> 16 & 0xFF] ^ tables[0][high >> 24];
    }
    for (; at != end; ++at) crc = tables[0][(crc ^ *at) & 0xFF] ^ (crc >> 8);
    return ~crc;
}

}  // namespace qconv_crc
