// The objects behind the handles of qconv_kernels.h: a device with its loaded kernels, and packed weights. Private to
// the launcher.
#pragma once

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "qconv_device.h"
#include "qconv_kernels.h"
#include "qconv_table.h"

struct qconv_device {
    explicit qconv_device(int index) : device(index), name(device.name()) {}

    qconv::Device device;
    std::string name;
    std::mutex mutex;
    std::map<const qconv::Kernel*, std::vector<qconv::Function>> loaded;

    const std::vector<qconv::Function>& functions_of(const qconv::Kernel& kernel) {
        const std::lock_guard<std::mutex> lock(mutex);
        const auto found = loaded.find(&kernel);
        if (found != loaded.end()) return found->second;
        return loaded.emplace(&kernel, device.load(kernel)).first->second;
    }
};

namespace qconv {

// Memory of a device, freed by the destructor.
class Memory {
  public:
    Memory(Device& device, size_t bytes) : device_(&device), address_(device.allocate(bytes)) {}
    Memory(Memory&& other) noexcept : device_(other.device_), address_(other.address_) { other.address_ = nullptr; }
    Memory& operator=(Memory&&) = delete;
    ~Memory() {
        if (address_ != nullptr) device_->release(address_);
    }
    void* address() const { return address_; }

  private:
    Device* device_;
    void* address_;
};

// A kernel's argument struct on the stack, aligned for tensor maps.
struct alignas(64) Arguments {
    unsigned char bytes[MOST_ARGUMENT_BYTES];

    void put(size_t at, const void* from, size_t count) { memcpy(bytes + at, from, count); }
};

// The source of an address: an array that was packed, the input or output of that number in a call, or an offset in its
// workspace.
struct Origin {
    enum class From { packed, input, output, workspace } from;
    void* address;
    size_t at;
};

// The arrays of one call.
struct Call {
    const void* const* inputs;
    void* const* outputs;
    char* workspace;

    void* address_of(const Origin& origin) const {
        switch (origin.from) {
            case Origin::From::input: return const_cast<void*>(inputs[origin.at]);
            case Origin::From::output: return outputs[origin.at];
            case Origin::From::workspace: return workspace + origin.at;
            default: return origin.address;
        }
    }
};

// A member of the argument struct that each call fills in: an address, or a tensor map of the array there.
struct Slot {
    unsigned offset;
    Origin origin;
    const TensorMap* map;
};

// A kernel with all that stays the same between calls.
struct PackedKernel {
    const Kernel* kernel;
    const std::vector<Function>* functions;
    std::vector<Memory> memory;            // workspaces and values per channel
    std::vector<unsigned char> constants;  // the argument struct, in which the slots are zero
    std::vector<Slot> slots;
};

}  // namespace qconv

struct qconv_packed {
    qconv_device* device;
    const qconv_kernel* entry;
    size_t workspace_bytes;
    std::vector<qconv::Origin> origins;  // of the problem's tensors
    std::vector<qconv::PackedKernel> kernels;
    std::vector<qconv::Memory> fence;  // one word, if launches overlap that read weights
};
