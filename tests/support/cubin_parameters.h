// A kernel's parameters, as its cubin has them: what a driver copies for a launch.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace cubin {

// A record of `.nv.info`: a format, an attribute, and two bytes, which for WITH_SIZE count the bytes behind them.
constexpr unsigned char WITH_SIZE = 4, PARAMETER_INFO = 0x17;
// Behind two words of a parameter's number and place: its bytes, above other bits.
constexpr size_t BYTES_AT = 8, BYTES_SHIFT = 18;

struct Parameters {
    size_t count, bytes;  // of all
};

inline Parameters parameters_in(const char* at, const char* end) {
    Parameters found = {0, 0};
    while (end - at >= 4) {
        uint16_t behind;
        memcpy(&behind, at + 2, sizeof behind);
        if (at[0] == WITH_SIZE && static_cast<unsigned char>(at[1]) == PARAMETER_INFO) {
            uint32_t word;
            memcpy(&word, at + 4 + BYTES_AT, sizeof word);
            found = {found.count + 1, found.bytes + (word >> BYTES_SHIFT)};
        }
        at += 4 + (at[0] == WITH_SIZE ? behind : 0);
    }
    return found;
}

// Returns none for what is no cubin, or has no such kernel.
inline Parameters parameters(const char* image, const char* kernel) {
    if (memcmp(image, ELFMAG, SELFMAG) != 0) return {0, 0};
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    const auto section = [&](size_t number) {
        Elf64_Shdr found;
        memcpy(&found, image + header.e_shoff + number * sizeof found, sizeof found);
        return found;
    };
    const char* const names = image + section(header.e_shstrndx).sh_offset;
    const std::string wanted = std::string(".nv.info.") + kernel;
    for (size_t i = 0; i < header.e_shnum; ++i) {
        const Elf64_Shdr one = section(i);
        if (wanted != names + one.sh_name) continue;
        return parameters_in(image + one.sh_offset, image + one.sh_offset + one.sh_size);
    }
    return {0, 0};
}

}  // namespace cubin
