// The implementation of qconv_kernels.h: finds kernels by problem and device, fills their arguments and launches them.
//
// qconv_device.h is the device of this library, with the same names for every vendor. The table lists the kernels,
// qconv_keys.h compares the spellings of their keys, qconv_parameters.h reads parameters, qconv_checks.h checks the
// arrays of a call, and qconv_packing.h fills in arguments.
#include "qconv_kernels.h"

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "qconv_checks.h"
#include "qconv_keys.h"
#include "qconv_objects.h"
#include "qconv_packing.h"
#include "qconv_parameters.h"
#include "qconv_table.h"
#include "qconv_workspace.h"

namespace qconv {
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

qconv_status launched(const qconv_packed* packed, const void* const* inputs, void* const* outputs, void* workspace,
                      size_t workspace_bytes, qconv_stream stream, bool overlap) {
    return guarded([&] {
        require(packed, "packed");
        check_workspace(*packed, workspace, workspace_bytes);
        const Call call = {inputs, outputs, static_cast<char*>(workspace)};
        check_arrays(*packed, call);
        run(*packed, call, stream, overlap);
    });
}

const qconv_kernel* chosen(const qconv_device& device, const char* key) {
    const qconv_kernel* best = nullptr;
    int best_rank = 0;
    bool is_known = false;
    const Spelling asked(key);
    for (const qconv_kernel& entry : table) {
        if (!asked.names(entry.key)) continue;
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
                                     ": export one, or give one of the keys in qconv_problems.h"};
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
}  // namespace qconv

// The functions of the interface. None leaves a using-directive behind: the file may be included by a program's own.
extern "C" {

int qconv_abi_version(void) { return QCONV_ABI_VERSION; }
const char* qconv_last_error(void) { return qconv::last_error.c_str(); }
size_t qconv_kernel_count(void) { return qconv::table.count; }
const qconv_kernel* qconv_kernel_at(size_t index) {
    return index < qconv::table.count ? qconv::table.first + index : nullptr;
}
const char* qconv_key_of(const qconv_kernel* kernel) { return kernel->key; }
const char* qconv_target_of(const qconv_kernel* kernel) { return kernel->target; }
const char* qconv_tuned_on(const qconv_kernel* kernel) { return kernel->device; }
double qconv_time_us_of(const qconv_kernel* kernel) { return kernel->time_us; }
const char* qconv_device_name(const qconv_device* device) { return device->name.c_str(); }
size_t qconv_workspace_bytes(const qconv_kernel* kernel) { return qconv::workspace_bytes(*kernel); }

const char* qconv_status_text(qconv_status status) {
    switch (status) {
        case QCONV_OK: return "QCONV_OK";
        case QCONV_BAD_ARGUMENT: return "QCONV_BAD_ARGUMENT";
        case QCONV_NO_KERNEL: return "QCONV_NO_KERNEL";
        case QCONV_NO_DEVICE: return "QCONV_NO_DEVICE";
        case QCONV_NO_MEMORY: return "QCONV_NO_MEMORY";
        case QCONV_LAUNCH_FAILED: return "QCONV_LAUNCH_FAILED";
        case QCONV_INTERNAL: return "QCONV_INTERNAL";
    }
    return "no status of this library";
}

qconv_status qconv_tensor_of(const qconv_kernel* kernel, size_t index, qconv_tensor* tensor) {
    using namespace qconv;
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
    for (const qconv::Layer& layer : kernel->layers) {
        for (const char* name : qconv::names_of(layer)) {
            // Both neighbours of an intermediate tensor have its scale as a parameter.
            const auto is_same = [&](const char* other) { return strcmp(other, name) == 0; };
            if (std::any_of(seen.begin(), seen.end(), is_same)) continue;
            seen.push_back(name);
            if (seen.size() <= index) continue;
            if (required != nullptr) *required = qconv::is_required(layer, name);
            return name;
        }
    }
    return nullptr;
}

qconv_status qconv_device_count(int* count) {
    using namespace qconv;
    return guarded([&] {
        require(count, "count");
        *count = Device::count();
    });
}

qconv_status qconv_open(int index, qconv_device** device) {
    using namespace qconv;
    return guarded([&] {
        require(device, "device");
        *device = new qconv_device(index);
    });
}

void qconv_close(qconv_device* device) { delete device; }

qconv_status qconv_lookup(qconv_device* device, const char* key, const qconv_kernel** kernel) {
    using namespace qconv;
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
    using namespace qconv;
    return guarded_with_default_floats([&] {
        require(device, "device");
        require(kernel, "kernel");
        require(packed, "packed");
        if (device->device.rank(kernel->target) == 0)
            throw Failure{QCONV_NO_KERNEL, std::string("a kernel for ") + kernel->target + " does not run on " +
                                               device->name + ": look up one that does"};
        const std::vector<Parameters> layers = checked(*kernel, Given(parameters, parameter_count));
        auto made = std::make_unique<qconv_packed>(
            qconv_packed{device, kernel, workspace_bytes(*kernel), origins_of(*kernel, weights), {}, {}});
        for (const Kernel& one : kernel->kernels) made->kernels.push_back(packed_kernel(*made, one, layers));
        if (reads_weights_early(*kernel)) made->fence.emplace_back(device->device, sizeof(uint32_t));
        fold(*made, stream);
        // Whatever stream launches next finds everything in place.
        device->device.synchronize(stream);
        *packed = made.release();
    });
}

qconv_status qconv_refold(qconv_packed* packed, qconv_stream stream) {
    using namespace qconv;
    return guarded([&] {
        require(packed, "packed");
        fold(*packed, stream);
        // An overlapping launch reads weights and folded values before the kernel in front of it has ended, but it does
        // wait for what is no kernel, such as this fill.
        for (const Memory& word : packed->fence)
            packed->device->device.fill(word.address(), 0, sizeof(uint32_t), stream);
    });
}

void qconv_packed_free(qconv_packed* packed) { delete packed; }

qconv_status qconv_workspace_prepare(const qconv_packed* packed, void* workspace, size_t workspace_bytes,
                                     qconv_stream stream) {
    using namespace qconv;
    return guarded([&] {
        require(packed, "packed");
        check_workspace(*packed, workspace, workspace_bytes);
        const size_t cleared = cleared_bytes(*packed->entry);
        if (cleared > 0) packed->device->device.fill(workspace, 0, cleared, stream);
    });
}

qconv_status qconv_launch(const qconv_packed* packed, const void* const* inputs, void* const* outputs, void* workspace,
                          size_t workspace_bytes, qconv_stream stream) {
    return qconv::launched(packed, inputs, outputs, workspace, workspace_bytes, stream, false);
}

qconv_status qconv_launch_overlapping(const qconv_packed* packed, const void* const* inputs, void* const* outputs,
                                      void* workspace, size_t workspace_bytes, qconv_stream stream) {
    return qconv::launched(packed, inputs, outputs, workspace, workspace_bytes, stream, true);
}

qconv_status qconv_turn_weights(const qconv_kernel* kernel, size_t index, const void* given, void* turned) {
    using namespace qconv;
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
    using namespace qconv;
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
    using namespace qconv;
    return guarded([&] {
        require(device, "device");
        if (bytes == 0) return;
        require(to, "to");
        require(from_host, "from_host");
        device->device.upload(to, from_host, bytes);
    });
}

qconv_status qconv_download(qconv_device* device, void* to_host, const void* from, size_t bytes) {
    using namespace qconv;
    return guarded([&] {
        require(device, "device");
        if (bytes == 0) return;
        require(to_host, "to_host");
        require(from, "from");
        device->device.download(to_host, from, bytes);
    });
}

qconv_status qconv_synchronize(qconv_device* device, qconv_stream stream) {
    using namespace qconv;
    return guarded([&] {
        require(device, "device");
        device->device.synchronize(stream);
    });
}

}  // extern "C"
