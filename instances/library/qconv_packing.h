// The argument structs of packed kernels: what is filled in once, and what by each launch. Private to the launcher.
#pragma once

#include <algorithm>
#include <vector>

#include "qconv_objects.h"
#include "qconv_parameters.h"
#include "qconv_workspace.h"

namespace qconv {

// Returns where the address or the map of a field comes from. `own` is the memory of fields that a kernel has for itself.
inline Origin origin_of(const qconv_packed& packed, const Kernel& kernel, const Field& field, const std::vector<void*>& own) {
    const size_t at = static_cast<size_t>(&field - kernel.fields.first);
    if (field.kind == Kind::tensor) return packed.origins[field.index];
    if (field.kind == Kind::scratch) return {Origin::From::workspace, nullptr, offset_of(*packed.entry, &field)};
    if (field.kind != Kind::map) return {Origin::From::packed, own[at], 0};
    const TensorMap& map = kernel.maps[field.index];
    return map.of_workspace ? Origin{Origin::From::packed, own[map.index], 0} : packed.origins[map.index];
}

inline void put(Device& device, Arguments& arguments, const Slot& slot, void* address) {
    if (slot.map == nullptr) {
        arguments.put(slot.offset, &address, sizeof address);
        return;
    }
    alignas(64) unsigned char encoded[128];
    device.encode(*slot.map, reinterpret_cast<uintptr_t>(address), encoded);
    arguments.put(slot.offset, encoded, sizeof encoded);
}

// Uploads the parameters that a kernel reads, allocates what its prepare launches write, and fills the members of the
// argument struct that are the same in every call.
inline PackedKernel packed_kernel(const qconv_packed& packed, const Kernel& kernel, const std::vector<Parameters>& layers) {
    Device& device = packed.device->device;
    PackedKernel made = {&kernel, &packed.device->functions_of(kernel), {}, {}, {}};
    std::vector<void*> own(kernel.fields.count);
    Arguments arguments = {};
    for (size_t i = 0; i < kernel.fields.count; ++i) {
        const Field& field = kernel.fields[i];
        std::vector<uint32_t> values;
        if (field.kind == Kind::value || field.kind == Kind::values)
            for (size_t k = 0; k < field.count; ++k) values.push_back(field.value(layers[field.index], k));
        if (field.kind == Kind::value) arguments.put(field.offset, values.data(), sizeof(uint32_t));
        if (field.kind != Kind::values && field.kind != Kind::workspace) continue;
        made.memory.emplace_back(device, field.count * sizeof(uint32_t));
        own[i] = made.memory.back().address();
        if (field.kind == Kind::values) device.upload(own[i], values.data(), field.count * sizeof(uint32_t));
    }
    for (const Field& field : kernel.fields) {
        if (field.kind == Kind::value) continue;
        const TensorMap* const map = field.kind == Kind::map ? &kernel.maps[field.index] : nullptr;
        const Slot slot = {field.offset, origin_of(packed, kernel, field, own), map};
        if (slot.origin.from == Origin::From::packed) put(device, arguments, slot, slot.origin.address);
        else made.slots.push_back(slot);
    }
    made.constants.assign(arguments.bytes, arguments.bytes + kernel.argument_bytes);
    return made;
}

inline void launch_each(Device& device, const PackedKernel& packed, Arguments& arguments, bool once, qconv_stream stream,
                 bool overlap) {
    for (size_t i = 0; i < packed.kernel->launches.count; ++i) {
        const Launch& launch = packed.kernel->launches[i];
        if (launch.once == once)
            device.launch((*packed.functions)[i], *packed.kernel, launch, arguments.bytes,
                          packed.kernel->argument_bytes, stream, overlap);
    }
}

// Slots stay zero: no prepare launch reads them.
inline void fold(const qconv_packed& packed, qconv_stream stream) {
    for (const PackedKernel& kernel : packed.kernels) {
        Arguments arguments;
        arguments.put(0, kernel.constants.data(), kernel.constants.size());
        launch_each(packed.device->device, kernel, arguments, true, stream, false);
    }
}

inline void run(const qconv_packed& packed, const Call& call, qconv_stream stream, bool overlap) {
    Device& device = packed.device->device;
    for (const PackedKernel& kernel : packed.kernels) {
        Arguments arguments;
        arguments.put(0, kernel.constants.data(), kernel.constants.size());
        for (const Slot& slot : kernel.slots) put(device, arguments, slot, call.address_of(slot.origin));
        launch_each(device, kernel, arguments, false, stream, overlap);
    }
}

// True where a launch may read weights before the kernel in front of it has ended.
inline bool reads_weights_early(const qconv_kernel& entry) {
    const auto is_weights = [](const Tensor& tensor) { return tensor.role == Role::weights; };
    if (std::none_of(entry.tensors.begin(), entry.tensors.end(), is_weights)) return false;
    const auto overlaps = [](const Launch& launch) { return launch.overlaps; };
    return std::any_of(entry.kernels.begin(), entry.kernels.end(), [&](const Kernel& kernel) {
        return std::any_of(kernel.launches.begin(), kernel.launches.end(), overlaps);
    });
}

}  // namespace qconv
