// The checks of the arrays and the workspace that a call gives. Private to the launcher.
#pragma once

#include <string>
#include <vector>

#include "qconv_objects.h"
#include "qconv_parameters.h"
#include "qconv_workspace.h"

namespace qconv {

template <typename Pointer>
inline void require(Pointer pointer, const char* name) {
    if (pointer == nullptr) refuse(std::string(name) + " is null: give one");
}

inline void check_alignment(const Tensor& tensor, const void* address) {
    require(address, tensor.name);
    if (reinterpret_cast<uintptr_t>(address) % tensor.alignment != 0)
        refuse(std::string(tensor.name) + " needs " + std::to_string(tensor.alignment) +
               "-byte alignment: copy it to such an address");
}

// Returns where each tensor's address comes from: those that are given now, and those that each call gives.
inline std::vector<Origin> origins_of(const qconv_kernel& entry, const void* const* weights) {
    std::vector<Origin> origins;
    size_t inputs = 0, outputs = 0, packed = 0;
    for (const Tensor& tensor : entry.tensors) {
        if (tensor.role == Role::input) origins.push_back({Origin::From::input, nullptr, inputs++});
        if (tensor.role == Role::output) origins.push_back({Origin::From::output, nullptr, outputs++});
        if (tensor.role == Role::between)
            origins.push_back({Origin::From::workspace, nullptr, offset_of(entry, &tensor)});
        if (tensor.role != Role::weights) continue;
        require(weights, tensor.name);
        void* const address = const_cast<void*>(weights[packed++]);
        check_alignment(tensor, address);
        origins.push_back({Origin::From::packed, address, 0});
    }
    return origins;
}

inline bool share_bytes(const void* one, size_t one_bytes, const void* other, size_t other_bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(one), first = reinterpret_cast<uintptr_t>(other);
    return begin < first + other_bytes && first < begin + one_bytes;
}

[[noreturn]] inline void refuse_aliasing(const qconv_kernel& entry, const Tensor& out, const Tensor& other) {
    std::string itself;
    for (const Tensor& tensor : entry.tensors)
        if (tensor.may_be_output) itself += ", or " + std::string(tensor.name) + " itself as a whole";
    refuse(std::string(out.name) + " shares memory with " + other.name +
           ": the kernel would write what it has yet to read; give an array of its own" + itself);
}

// Refuses an output that shares bytes with another array, because a thread would overwrite what another has yet to
// read.
inline void check_aliasing(const qconv_packed& packed, const Call& call) {
    const qconv_kernel& entry = *packed.entry;
    for (size_t i = 0; i < entry.tensors.count; ++i) {
        const Tensor& out = entry.tensors[i];
        if (out.role != Role::output) continue;
        const void* const begin = call.address_of(packed.origins[i]);
        for (size_t j = 0; j < entry.tensors.count; ++j) {
            const Tensor& other = entry.tensors[j];
            if (j == i || other.role == Role::between) continue;
            const void* const first = call.address_of(packed.origins[j]);
            if (!share_bytes(begin, out.bytes, first, other.bytes)) continue;
            if (other.may_be_output && first == begin && other.bytes == out.bytes) continue;
            refuse_aliasing(entry, out, other);
        }
    }
}

// Checks everything that a call gives, in the order of the problem's tensors.
inline void check_arrays(const qconv_packed& packed, const Call& call) {
    const qconv_kernel& entry = *packed.entry;
    for (size_t i = 0; i < entry.tensors.count; ++i) {
        const Tensor& tensor = entry.tensors[i];
        if (tensor.role != Role::input && tensor.role != Role::output) continue;
        require(tensor.role == Role::input ? static_cast<const void*>(call.inputs) : call.outputs, tensor.name);
        const void* const address = call.address_of(packed.origins[i]);
        check_alignment(tensor, address);
        if (share_bytes(address, tensor.bytes, call.workspace, packed.workspace_bytes))
            refuse(std::string(tensor.name) + " lies in the workspace, which the kernels write: give it other memory");
    }
    check_aliasing(packed, call);
}

inline void check_workspace(const qconv_packed& packed, const void* workspace, size_t bytes) {
    if (packed.workspace_bytes == 0) return;
    require(workspace, "workspace");
    if (bytes < packed.workspace_bytes)
        refuse("workspace_bytes is " + std::to_string(bytes) + ", and " + packed.entry->key + " needs " +
               std::to_string(packed.workspace_bytes) + ": allocate what qconv_workspace_bytes returns");
    if (reinterpret_cast<uintptr_t>(workspace) % QCONV_WORKSPACE_ALIGNMENT != 0)
        refuse("workspace needs " + std::to_string(QCONV_WORKSPACE_ALIGNMENT) +
               "-byte alignment: allocate it at such an address");
}

}  // namespace qconv
