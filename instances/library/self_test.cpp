// Runs every kernel of the library that this machine has a device for, and compares its outputs with stored ones, bit
// for bit.
//
//     qconv_self_test [--device N]
//
// Exit status: 0 where all are right, 1 where one is wrong, 3 where there is no device or none of them runs on it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "qconv_crc.h"
#include "qconv_kernels.h"
#include "self_test_vectors.h"

namespace {

enum class Outcome { right, wrong, skipped };

std::vector<char> filled(const SelfTestBlock& block, size_t bytes) {
    std::vector<char> array(bytes);
    for (size_t at = 0; at < bytes; at += block.count)
        memcpy(&array[at], block.bytes, block.count < bytes - at ? block.count : bytes - at);
    return array;
}

// Memory of the device, freed by the destructor.
struct Array {
    qconv_device* device;
    void* memory = nullptr;
    Array(qconv_device* device, const std::vector<char>& content) : device(device) {
        if (qconv_allocate(device, content.size(), &memory) == QCONV_OK)
            qconv_upload(device, memory, content.data(), content.size());
    }
    Array(Array&& other) noexcept : device(other.device), memory(other.memory) { other.memory = nullptr; }
    ~Array() {
        if (memory != nullptr) qconv_free(device, memory);
    }
};

// Returns the index of the first stored element that differs, or -1. The CRC compares the elements between.
long first_wrong(const SelfTestOutput& expected, const std::vector<char>& got, size_t element_bytes) {
    for (size_t i = 0; i < expected.count; ++i)
        if (memcmp(&got[i * expected.step * element_bytes], expected.sample + i * element_bytes, element_bytes) != 0)
            return static_cast<long>(i * expected.step);
    return -1;
}

struct Packed {
    qconv_packed* handle = nullptr;
    ~Packed() { qconv_packed_free(handle); }
};

Outcome say(const qconv_kernel* kernel, const char* word, const std::string& why) {
    printf("%-7s %-8s %s%s%s\n", word, qconv_target_of(kernel), qconv_key_of(kernel), why.empty() ? "" : ": ",
           why.c_str());
    return strcmp(word, "right") == 0 ? Outcome::right : strcmp(word, "WRONG") == 0 ? Outcome::wrong : Outcome::skipped;
}

// The arrays of a problem on the device, by role. Outputs are filled, so that a kernel that does not write one is
// detected.
struct Arrays {
    std::vector<Array> held;
    std::vector<const void*> inputs, weights;

    Arrays(qconv_device* device, const SelfTestCase& expected, const std::vector<qconv_tensor>& tensors) {
        for (size_t i = 0; i < tensors.size(); ++i) {
            if (tensors[i].role == QCONV_OUTPUT) continue;
            held.emplace_back(device, filled(expected.arrays[i], tensors[i].bytes));
            (tensors[i].role == QCONV_INPUT ? inputs : weights).push_back(held.back().memory);
        }
    }
};

struct Outputs {
    std::vector<Array> held;
    std::vector<void*> addresses;

    Outputs(qconv_device* device, const std::vector<qconv_tensor>& tensors) {
        for (const qconv_tensor& tensor : tensors) {
            if (tensor.role != QCONV_OUTPUT) continue;
            held.emplace_back(device, std::vector<char>(tensor.bytes, 0x55));
            addresses.push_back(held.back().memory);
        }
    }
};

template <typename Held>
bool has_all(const Held& arrays) {
    for (const Array& array : arrays.held)
        if (array.memory == nullptr) return false;
    return true;
}

Outcome compare(const qconv_kernel* kernel, qconv_device* device, const SelfTestCase& expected,
                const std::vector<qconv_tensor>& tensors, const Outputs& outputs) {
    size_t output = 0;
    for (const qconv_tensor& tensor : tensors) {
        if (tensor.role != QCONV_OUTPUT) continue;
        std::vector<char> got(tensor.bytes);
        if (qconv_download(device, got.data(), outputs.addresses[output], got.size()) != QCONV_OK)
            return say(kernel, "WRONG", qconv_last_error());
        uint64_t elements = 1;
        for (unsigned axis = 0; axis < tensor.rank; ++axis) elements *= tensor.shape[axis];
        const SelfTestOutput& stored = expected.outputs[output++];
        const long at = first_wrong(stored, got, got.size() / elements);
        if (at >= 0) return say(kernel, "WRONG", std::string(tensor.name) + " at element " + std::to_string(at));
        if (qconv_crc::of(got.data(), got.size()) != stored.crc)
            return say(kernel, "WRONG", std::string(tensor.name) + " between the elements that are stored");
    }
    return Outcome::right;
}

Outcome test(const qconv_kernel* kernel, qconv_device* device, const SelfTestCase& expected) {
    std::vector<qconv_tensor> tensors;
    for (qconv_tensor tensor; qconv_tensor_of(kernel, tensors.size(), &tensor) == QCONV_OK;) tensors.push_back(tensor);
    const Arrays arrays(device, expected, tensors);
    const size_t workspace_bytes = qconv_workspace_bytes(kernel);
    // Not zero, as memory from an allocator may be.
    const Array workspace(device, std::vector<char>(workspace_bytes, 0x33));
    if (!has_all(arrays) || workspace.memory == nullptr) return say(kernel, "WRONG", qconv_last_error());
    Packed packed;
    const qconv_status status = qconv_pack(device, kernel, arrays.weights.data(), expected.parameters,
                                           expected.parameter_count, nullptr, &packed.handle);
    if (status == QCONV_NO_KERNEL) return say(kernel, "skipped", qconv_last_error());
    if (status != QCONV_OK ||
        qconv_workspace_prepare(packed.handle, workspace.memory, workspace_bytes, nullptr) != QCONV_OK)
        return say(kernel, "WRONG", qconv_last_error());
    // Each launch has outputs of its own. The later ones find the workspace as the first one left it.
    for (auto* launch : {qconv_launch, qconv_launch, qconv_launch_overlapping}) {
        const Outputs outputs(device, tensors);
        if (!has_all(outputs) ||
            launch(packed.handle, arrays.inputs.data(), outputs.addresses.data(), workspace.memory, workspace_bytes,
                   nullptr) != QCONV_OK ||
            qconv_synchronize(device, nullptr) != QCONV_OK)
            return say(kernel, "WRONG", qconv_last_error());
        const Outcome outcome = compare(kernel, device, expected, tensors, outputs);
        if (outcome != Outcome::right) return outcome;
    }
    return say(kernel, "right", "");
}

const SelfTestCase* case_of(const qconv_kernel* kernel) {
    for (size_t i = 0; i < self_test_case_count; ++i)
        if (strcmp(self_test_cases[i].key, qconv_key_of(kernel)) == 0) return self_test_cases + i;
    return nullptr;
}

}  // namespace

int main(int count, char** words) {
    const bool is_asked = count == 3 && strcmp(words[1], "--device") == 0;
    if (count != 1 && !is_asked) {
        fprintf(stderr, "usage: %s [--device N]\n", words[0]);
        return 2;
    }
    qconv_device* device = nullptr;
    if (qconv_open(is_asked ? atoi(words[2]) : 0, &device) != QCONV_OK) {
        fprintf(stderr, "%s\n", qconv_last_error());
        return 3;
    }
    size_t counts[3] = {};
    for (size_t i = 0; i < qconv_kernel_count(); ++i) {
        const qconv_kernel* kernel = qconv_kernel_at(i);
        const SelfTestCase* expected = case_of(kernel);
        const Outcome outcome =
            expected == nullptr ? say(kernel, "WRONG", "nothing is stored for it") : test(kernel, device, *expected);
        ++counts[static_cast<size_t>(outcome)];
    }
    printf("%s: %zu right, %zu wrong, %zu not for this device\n", qconv_device_name(device), counts[0], counts[1],
           counts[2]);
    qconv_close(device);
    return counts[1] > 0 ? 1 : counts[0] == 0 ? 3 : 0;
}
