// The implementation of qconv_kernels.h: finds kernels by problem and device, fills their arguments and launches them.
//
// qconv_device.h is the device of this library, with the same names for every vendor. The table lists the kernels, and
// qconv_parameters.h reads the parameters of a call.
#include "qconv_kernels.h"

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "qconv_objects.h"
#include "qconv_parameters.h"
#include "qconv_table.h"

using namespace qconv;

namespace {

thread_local std::string last_error;

template <typename Work>
qconv_status guarded(Work work) noexcept {
    try {
        work();
        return QCONV_OK;
    } catch (const Failure& failure) {
        last_error = failure.text;
        return failure.status;
    } catch (const std::bad_alloc&) {
        last_error = "the host has too little memory: free some";
        return QCONV_NO_MEMORY;
    } catch (const std::exception& error) {
        last_error = error.what();
        return QCONV_INTERNAL;
    }
}

// Computes parameters in the default floating-point environment, as Python does, whatever rounding and denormal modes
// the caller has set.
template <typename Work>
qconv_status guarded_with_default_floats(Work work) noexcept {
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    const qconv_status status = guarded(work);
    fesetenv(&before);
    return status;
}

template <typename Pointer>
void require(Pointer pointer, const char* name) {
    if (pointer == nullptr) refuse(std::string(name) + " is null: give one");
}

// Places the arrays of a role, which are given in the order of the problem.
void place(const qconv_kernel& entry, Role role, const void* const* given, Addresses& into) {
    for (size_t i = 0, next = 0; i < entry.tensors.count; ++i) {
        const Tensor& tensor = entry.tensors[i];
        if (tensor.role != role) continue;
        require(given, tensor.name);
        into[i] = const_cast<void*>(given[next++]);
        require(into[i], tensor.name);
        if (reinterpret_cast<uintptr_t>(into[i]) % tensor.alignment != 0)
            refuse(std::string(tensor.name) + " needs " + std::to_string(tensor.alignment) +
                   "-byte alignment: copy it to such an address");
    }
}

// Refuses an output that shares bytes with another array, because a thread would overwrite what another has yet to
// read.
void check_aliasing(const qconv_kernel& entry, const Addresses& addresses) {
    std::string itself;
    for (const Tensor& tensor : entry.tensors)
        if (tensor.may_be_output) itself += ", or " + std::string(tensor.name) + " itself as a whole";
    for (size_t i = 0; i < entry.tensors.count; ++i) {
        const Tensor& out = entry.tensors[i];
        if (out.role != Role::output) continue;
        for (size_t j = 0; j < entry.tensors.count; ++j) {
            const Tensor& other = entry.tensors[j];
            if (j == i || other.role == Role::between) continue;
            const auto begin = reinterpret_cast<uintptr_t>(addresses[i]);
            const auto first = reinterpret_cast<uintptr_t>(addresses[j]);
            if (begin >= first + other.bytes || first >= begin + out.bytes) continue;
            if (other.may_be_output && first == begin && other.bytes == out.bytes) continue;
            refuse(std::string(out.name) + " shares memory with " + other.name +
                   ": the kernel would write what it has yet to read; give an array of its own" + itself);
        }
    }
}

std::vector<Parameters> checked(const qconv_kernel& entry, const Given& given) {
    given.check_each();
    std::string known;
    for (const Layer& layer : entry.layers)
        for (const char* name : names_of(layer)) known += (known.empty() ? "" : ", ") + std::string(name);
    for (const qconv_parameter& one : given) {
        const auto takes = [&](const Layer& layer) { return has_name(layer, one.name); };
        if (std::none_of(entry.layers.begin(), entry.layers.end(), takes))
            refuse(std::string(one.name) + " is no parameter of this problem, which takes " +
                   (known.empty() ? "none" : known) + ": leave it out");
    }
    std::vector<Parameters> layers;
    for (const Layer& layer : entry.layers) layers.push_back(parameters_of(layer, given));
    return layers;
}

// Uploads the parameters that a kernel reads, and allocates what its prepare launches write.
PackedKernel packed_kernel(qconv_device& device, const Kernel& kernel, const std::vector<Parameters>& layers) {
    PackedKernel packed = {&kernel, &device.functions_of(kernel), {}, {}, {}};
    packed.own.resize(kernel.fields.count);
    packed.values.resize(kernel.fields.count);
    for (size_t i = 0; i < kernel.fields.count; ++i) {
        const Field& field = kernel.fields[i];
        if (field.kind == Kind::value || field.kind == Kind::values)
            for (size_t k = 0; k < field.count; ++k) packed.values[i].push_back(field.value(layers[field.index], k));
        if (field.kind != Kind::values && field.kind != Kind::workspace) continue;
        packed.memory.emplace_back(device.device, field.count * sizeof(uint32_t));
        packed.own[i] = packed.memory.back().address();
        if (field.kind == Kind::values)
            device.device.upload(packed.own[i], packed.values[i].data(), field.count * sizeof(uint32_t));
    }
    return packed;
}

// An address that is not known yet is zero: no launch with these arguments reads it.
Arguments arguments_of(Device& device, const PackedKernel& packed, const Addresses& addresses,
                       const std::vector<void*>& scratch) {
    Arguments arguments(packed.kernel->argument_bytes);
    for (size_t i = 0; i < packed.kernel->fields.count; ++i) {
        const Field& field = packed.kernel->fields[i];
        if (field.kind == Kind::value) {
            arguments.put(field.offset, packed.values[i].data(), sizeof(uint32_t));
        } else if (field.kind == Kind::map) {
            const TensorMap& map = packed.kernel->maps[field.index];
            const void* array = map.of_workspace ? packed.own[map.index] : addresses[map.index];
            alignas(64) unsigned char encoded[128];
            if (array == nullptr) continue;
            device.encode(map, reinterpret_cast<uintptr_t>(array), encoded);
            arguments.put(field.offset, encoded, sizeof encoded);
        } else {
            const void* address = field.kind == Kind::tensor    ? addresses[field.index]
                                  : field.kind == Kind::scratch ? (scratch.empty() ? nullptr : scratch[i])
                                                                : packed.own[i];
            arguments.put(field.offset, &address, sizeof address);
        }
    }
    return arguments;
}

void run(Device& device, const PackedKernel& packed, Arguments& arguments, bool once, qconv_stream stream) {
    for (size_t i = 0; i < packed.kernel->launches.count; ++i) {
        const Launch& launch = packed.kernel->launches[i];
        if (launch.once == once)
            device.launch((*packed.functions)[i], *packed.kernel, launch, arguments.data(),
                          packed.kernel->argument_bytes, stream, false);
    }
}

void fold(qconv_packed& packed, qconv_stream stream) {
    Device& device = packed.device->device;
    for (const PackedKernel& kernel : packed.kernels) {
        Arguments arguments = arguments_of(device, kernel, packed.weights, {});
        run(device, kernel, arguments, true, stream);
    }
}

BoundKernel bound_kernel(Device& device, const PackedKernel& packed, const Addresses& addresses,
                         std::vector<Memory>& memory) {
    std::vector<void*> scratch(packed.kernel->fields.count);
    for (size_t i = 0; i < scratch.size(); ++i) {
        const Field& field = packed.kernel->fields[i];
        if (field.kind != Kind::scratch) continue;
        memory.emplace_back(device, field.count * sizeof(uint32_t));
        scratch[i] = memory.back().address();
        device.fill(scratch[i], 0, field.count * sizeof(uint32_t), nullptr);
    }
    return {&packed, arguments_of(device, packed, addresses, scratch)};
}

const qconv_kernel* chosen(const qconv_device& device, const char* key) {
    const qconv_kernel* best = nullptr;
    int best_rank = 0;
    bool is_known = false;
    for (const qconv_kernel& entry : table) {
        if (strcmp(entry.key, key) != 0) continue;
        is_known = true;
        // Tuned on this device, then tuned on another one, then untuned.
        const int preference = device.name == entry.device ? 2 : entry.time_us > 0 ? 1 : 0;
        const int runs = device.device.rank(entry.target), rank = runs > 0 ? 4 * runs + preference : 0;
        if (rank > best_rank) best = &entry, best_rank = rank;
    }
    if (best == nullptr)
        throw Failure{QCONV_NO_KERNEL,
                      is_known ? "this library has a kernel for " + std::string(key) + ", but none that runs on " +
                                     device.name + ": export it for that device's target"
                               : "this library has no kernel for " + std::string(key).substr(0, 300) +
                                     ": export one, or give one of the keys that qconv_key_of tells"};
    return best;
}

std::vector<const Tensor*> in_order(const qconv_kernel& entry) {
    std::vector<const Tensor*> ordered;
    for (Role role : {Role::input, Role::weights, Role::output})
        for (const Tensor& tensor : entry.tensors)
            if (tensor.role == role) ordered.push_back(&tensor);
    return ordered;
}

const Tensor& weights_of(const qconv_kernel& entry, size_t index) {
    for (const Tensor& tensor : entry.tensors)
        if (tensor.role == Role::weights && index-- == 0) return tensor;
    refuse("the problem has fewer weights: count them from 0");
}

}  // namespace

extern "C" {

int qconv_abi_version(void) { return QCONV_ABI_VERSION; }
const char* qconv_last_error(void) { return last_error.c_str(); }
size_t qconv_kernel_count(void) { return table.count; }
const qconv_kernel* qconv_kernel_at(size_t index) { return index < table.count ? table.first + index : nullptr; }
const char* qconv_key_of(const qconv_kernel* kernel) { return kernel->key; }
const char* qconv_target_of(const qconv_kernel* kernel) { return kernel->target; }
const char* qconv_tuned_on(const qconv_kernel* kernel) { return kernel->device; }
double qconv_time_us_of(const qconv_kernel* kernel) { return kernel->time_us; }
const char* qconv_device_name(const qconv_device* device) { return device->name.c_str(); }

qconv_status qconv_tensor_of(const qconv_kernel* kernel, size_t index, qconv_tensor* tensor) {
    return guarded([&] {
        require(kernel, "kernel");
        require(tensor, "tensor");
        const std::vector<const Tensor*> tensors = in_order(*kernel);
        if (index >= tensors.size())
            refuse("the problem has " + std::to_string(tensors.size()) + " tensors: count them from 0");
        const Tensor& found = *tensors[index];
        const qconv_role role = found.role == Role::input    ? QCONV_INPUT
                                : found.role == Role::output ? QCONV_OUTPUT
                                                             : QCONV_WEIGHTS;
        *tensor = {found.name, found.type, role, found.rank, {}, found.bytes, found.alignment};
        memcpy(tensor->shape, found.shape, sizeof found.shape);
    });
}

const char* qconv_parameter_of(const qconv_kernel* kernel, size_t index, int* required) {
    std::vector<const char*> seen;
    for (const Layer& layer : kernel->layers) {
        for (const char* name : names_of(layer)) {
            // Both neighbours of an intermediate tensor have its scale as a parameter.
            const auto is_same = [&](const char* other) { return strcmp(other, name) == 0; };
            if (std::any_of(seen.begin(), seen.end(), is_same)) continue;
            seen.push_back(name);
            if (seen.size() <= index) continue;
            if (required != nullptr) *required = is_required(layer, name);
            return name;
        }
    }
    return nullptr;
}

qconv_status qconv_open(int index, qconv_device** device) {
    return guarded([&] {
        require(device, "device");
        *device = new qconv_device(index);
    });
}

void qconv_close(qconv_device* device) { delete device; }

qconv_status qconv_lookup(qconv_device* device, const char* key, const qconv_kernel** kernel) {
    return guarded([&] {
        require(device, "device");
        require(key, "key");
        require(kernel, "kernel");
        const qconv_kernel* entry = chosen(*device, key);
        for (const Kernel& one : entry->kernels) device->functions_of(one);
        *kernel = entry;
    });
}

qconv_status qconv_pack(qconv_device* device, const qconv_kernel* kernel, const void* const* weights,
                        const qconv_parameter* parameters, size_t parameter_count, qconv_stream stream,
                        qconv_packed** packed) {
    return guarded_with_default_floats([&] {
        require(device, "device");
        require(kernel, "kernel");
        require(packed, "packed");
        if (device->device.rank(kernel->target) == 0)
            throw Failure{QCONV_NO_KERNEL, std::string("a kernel for ") + kernel->target + " does not run on " +
                                               device->name + ": look up one that does"};
        const std::vector<Parameters> layers = checked(*kernel, Given(parameters, parameter_count));
        auto made = std::make_unique<qconv_packed>(qconv_packed{device, kernel, Addresses(kernel->tensors.count), {}});
        place(*kernel, Role::weights, weights, made->weights);
        for (const Kernel& one : kernel->kernels) made->kernels.push_back(packed_kernel(*device, one, layers));
        fold(*made, stream);
        *packed = made.release();
    });
}

qconv_status qconv_refold(qconv_packed* packed, qconv_stream stream) {
    return guarded([&] {
        require(packed, "packed");
        fold(*packed, stream);
    });
}

void qconv_packed_free(qconv_packed* packed) { delete packed; }

qconv_status qconv_bind(qconv_packed* packed, const void* const* inputs, void* const* outputs, qconv_bound** bound) {
    return guarded([&] {
        require(packed, "packed");
        require(bound, "bound");
        Device& device = packed->device->device;
        Addresses addresses = packed->weights;
        place(*packed->entry, Role::input, inputs, addresses);
        place(*packed->entry, Role::output, outputs, addresses);
        check_aliasing(*packed->entry, addresses);
        auto made = std::make_unique<qconv_bound>(qconv_bound{packed, {}, {}});
        for (size_t i = 0; i < addresses.size(); ++i) {
            if (packed->entry->tensors[i].role != Role::between) continue;
            made->memory.emplace_back(device, packed->entry->tensors[i].bytes);
            addresses[i] = made->memory.back().address();
        }
        for (const PackedKernel& kernel : packed->kernels)
            made->kernels.push_back(bound_kernel(device, kernel, addresses, made->memory));
        device.synchronize(nullptr);
        *bound = made.release();
    });
}

void qconv_bound_free(qconv_bound* bound) { delete bound; }

qconv_status qconv_launch(qconv_bound* bound, qconv_stream stream) {
    return guarded([&] {
        require(bound, "bound");
        Device& device = bound->packed->device->device;
        for (BoundKernel& kernel : bound->kernels) run(device, *kernel.packed, kernel.arguments, false, stream);
    });
}

qconv_status qconv_turn_weights(const qconv_kernel* kernel, size_t index, const void* given, void* turned) {
    return guarded([&] {
        require(kernel, "kernel");
        require(given, "given");
        require(turned, "turned");
        const Tensor& w = weights_of(*kernel, index);
        const uint64_t k = w.shape[0], one = w.shape[1], two = w.shape[2], three = w.shape[3], bytes = w.element_bytes;
        // The last dimension of the kernel's layout (the second, where channels come first) is the other one in
        // `given`.
        const bool channels_last = strstr(kernel->key, "layout=nchw") == nullptr;
        const uint64_t rows = channels_last ? one * two : one, columns = channels_last ? three : two * three;
        for (uint64_t at = 0; at < k * rows * columns; ++at) {
            const uint64_t filter = at / (rows * columns), row = at / columns % rows, column = at % columns;
            const char* from = static_cast<const char*>(given) + (filter * rows * columns + column * rows + row) * bytes;
            memcpy(static_cast<char*>(turned) + at * bytes, from, bytes);
        }
    });
}

qconv_status qconv_allocate(qconv_device* device, size_t bytes, void** memory) {
    return guarded([&] {
        require(device, "device");
        require(memory, "memory");
        *memory = device->device.allocate(bytes);
    });
}

void qconv_free(qconv_device* device, void* memory) {
    if (device != nullptr && memory != nullptr) device->device.release(memory);
}

qconv_status qconv_upload(qconv_device* device, void* to, const void* from_host, size_t bytes) {
    return guarded([&] {
        require(device, "device");
        if (bytes == 0) return;
        require(to, "to");
        require(from_host, "from_host");
        device->device.upload(to, from_host, bytes);
    });
}

qconv_status qconv_download(qconv_device* device, void* to_host, const void* from, size_t bytes) {
    return guarded([&] {
        require(device, "device");
        if (bytes == 0) return;
        require(to_host, "to_host");
        require(from, "from");
        device->device.download(to_host, from, bytes);
    });
}

qconv_status qconv_synchronize(qconv_device* device) {
    return guarded([&] {
        require(device, "device");
        device->device.synchronize(nullptr);
    });
}

}  // extern "C"
