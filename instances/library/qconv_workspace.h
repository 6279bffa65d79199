// The parts of a workspace: memory that a launch needs besides the arrays. Private to the launcher.
#pragma once

#include <cstddef>

#include "qconv_table.h"

namespace qconv {

// Parts begin at multiples of this many bytes, so that no two share a cache line.
constexpr size_t PART_ALIGNMENT = 256;

struct WorkspacePart {
    const void* of;  // the field of scratch memory, or the tensor between two kernels
    size_t offset, bytes;
    bool is_cleared;  // zero before the first launch and after each one
    size_t end() const { return offset + bytes; }
};

// Calls `visit` with each part in order: scratch memory first, so that one span is cleared.
template <typename Visit>
void visit_parts(const qconv_kernel& entry, Visit visit) {
    size_t end = 0;
    const auto add = [&](const void* of, size_t bytes, bool is_cleared) {
        const WorkspacePart part = {of, (end + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT, bytes, is_cleared};
        end = part.end();
        visit(part);
    };
    for (const Kernel& kernel : entry.kernels)
        for (const Field& field : kernel.fields)
            if (field.kind == Kind::scratch) add(&field, field.count * sizeof(uint32_t), true);
    for (const Tensor& tensor : entry.tensors)
        if (tensor.role == Role::between) add(&tensor, tensor.bytes, false);
}

inline size_t workspace_bytes(const qconv_kernel& entry) {
    size_t bytes = 0;
    visit_parts(entry, [&](const WorkspacePart& part) { bytes = part.end(); });
    return bytes;
}

inline size_t cleared_bytes(const qconv_kernel& entry) {
    size_t bytes = 0;
    visit_parts(entry, [&](const WorkspacePart& part) {
        if (part.is_cleared) bytes = part.end();
    });
    return bytes;
}

// Returns the offset of the part of a field or a tensor, which has one.
inline size_t offset_of(const qconv_kernel& entry, const void* of) {
    size_t offset = 0;
    visit_parts(entry, [&](const WorkspacePart& part) {
        if (part.of == of) offset = part.offset;
    });
    return offset;
}

}  // namespace qconv
