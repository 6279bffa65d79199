// Copies by tensor maps: the mapping from bytes of an array to bytes of a tile in shared memory. Private to
// cpu_runtime.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace {

constexpr int kMostDimensions = 5;
constexpr long kChunk = 16;  // bytes that a swizzle moves together

// The CPU device's form of a CUtensorMap, which tensor_maps.py packs. The innermost dimension comes first.
struct TensorMap {
    char* address;
    uint64_t strides[kMostDimensions - 1];  // in bytes, without the innermost dimension
    uint32_t dims[kMostDimensions];
    uint16_t box[kMostDimensions];  // for im2col: channels per pixel, and pixels
    int16_t lower[3], upper[3];     // corners of the pixel box, from the array's first and last
    uint8_t element_strides[kMostDimensions];
    uint8_t rank, element_bytes, swizzle, is_im2col;
};
static_assert(sizeof(TensorMap) <= 128, "a CUtensorMap has as many");

// Bytes that are contiguous on both sides. `tile` is their offset in the tile.
struct Run {
    size_t tile;
    char* array;  // null: outside of the array
    unsigned bytes;
};

// Applies the swizzle: hardware permutes chunks by bits of their address in shared memory.
inline size_t swizzled(size_t address, unsigned span) {
    const size_t chunks = span == 0 ? 1 : span / kChunk;
    return address ^ ((address >> 7) & (chunks - 1)) * kChunk;
}

// Visits a row: `elements` consecutive elements from `at` on, in chunks, which also end where the array
// begins or ends.
template <class Take>
void for_row(const TensorMap& map, const long (&at)[kMostDimensions], long elements, size_t tile, Take take) {
    char* array = map.address;
    bool exists = true;
    for (int d = 1; d < map.rank; ++d) {
        exists = exists && at[d] >= 0 && at[d] < static_cast<long>(map.dims[d]);
        if (exists) array += static_cast<uint64_t>(at[d]) * map.strides[d - 1];
    }
    const long size = map.element_bytes, first = at[0] * size, end = elements * size;
    const long begin_inside = std::clamp(-first, 0l, end);
    const long end_inside = std::clamp(static_cast<long>(map.dims[0]) * size - first, begin_inside, end);
    for (long byte = 0; byte < end;) {
        long stop = std::min(end, (byte / kChunk + 1) * kChunk);
        const bool inside = exists && byte >= begin_inside && byte < end_inside;
        if (byte < begin_inside) stop = std::min(stop, begin_inside);
        else if (byte < end_inside) stop = std::min(stop, end_inside);
        take(Run{tile + static_cast<size_t>(byte), inside ? array + first + byte : nullptr,
                 static_cast<unsigned>(stop - byte)});
        byte = stop;
    }
}

// Visits a tile whose first element has these coordinates.
template <class Take>
void for_tile(const TensorMap& map, const int* coordinates, Take take) {
    long at[kMostDimensions] = {};
    long counts[kMostDimensions] = {1, 1, 1, 1, 1}, index[kMostDimensions] = {};
    for (int d = 0; d < map.rank; ++d)
        counts[d] = (map.box[d] + map.element_strides[d] - 1) / map.element_strides[d];
    const size_t row_bytes = static_cast<size_t>(counts[0]) * map.element_bytes;
    for (size_t tile = 0;; tile += row_bytes) {
        for (int d = 0; d < map.rank; ++d) at[d] = coordinates[d] + index[d] * map.element_strides[d];
        for_row(map, at, counts[0], tile, take);
        int d = 1;
        while (d < map.rank && ++index[d] == counts[d]) index[d++] = 0;
        if (d >= map.rank) return;
    }
}

inline bool is_in_pixel_box(const TensorMap& map, const int* coordinates) {
    for (int d = 1; d + 1 < map.rank; ++d) {
        const long end = static_cast<long>(map.dims[d]) + map.upper[d - 1];
        if (coordinates[d] < map.lower[d - 1] || coordinates[d] >= end) return false;
    }
    return true;
}

// Visits consecutive pixels from these coordinates on, each shifted by the offsets of a filter tap.
template <class Take>
void for_pixels(const TensorMap& map, const int* coordinates, const unsigned short* offsets, Take take) {
    long pixel[kMostDimensions] = {}, at[kMostDimensions] = {};
    for (int d = 0; d < map.rank; ++d) pixel[d] = coordinates[d];
    const size_t row_bytes = static_cast<size_t>(map.box[0]) * map.element_bytes;
    for (unsigned count = 0; count < map.box[1]; ++count) {
        for (int d = 0; d < map.rank; ++d) at[d] = pixel[d];
        for (int d = 1; d + 1 < map.rank; ++d) at[d] += offsets[d - 1];
        for_row(map, at, map.box[0], count * row_bytes, take);
        int d = 1;
        for (; d + 1 < map.rank; ++d) {
            pixel[d] += map.element_strides[d];
            if (pixel[d] < static_cast<long>(map.dims[d]) + map.upper[d - 1]) break;
            pixel[d] = map.lower[d - 1];
        }
        if (d + 1 == map.rank) ++pixel[d];
    }
}

}  // namespace
