// The objects behind the handles of qconv_kernels.h: a device with its loaded kernels, packed weights, bound arrays.
// Private to the launcher.
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

// A kernel's argument struct, aligned for tensor maps.
class Arguments {
  public:
    explicit Arguments(size_t bytes) : chunks_((bytes + sizeof(Chunk) - 1) / sizeof(Chunk)) {}
    void* data() { return chunks_.data(); }
    void put(size_t at, const void* from, size_t bytes) {
        memcpy(reinterpret_cast<char*>(data()) + at, from, bytes);
    }

  private:
    struct alignas(64) Chunk {
        char bytes[64];
    };
    std::vector<Chunk> chunks_;
};

// The addresses of a problem's tensors, by index; null where not known yet.
using Addresses = std::vector<void*>;

// A kernel with all that stays the same between calls.
struct PackedKernel {
    const Kernel* kernel;
    const std::vector<Function>* functions;
    std::vector<Memory> memory;
    std::vector<void*> own;  // per field: workspaces and values per channel
    std::vector<std::vector<uint32_t>> values;
};

}  // namespace qconv

struct qconv_packed {
    qconv_device* device;
    const qconv_kernel* entry;
    qconv::Addresses weights;
    std::vector<qconv::PackedKernel> kernels;
};

namespace qconv {

struct BoundKernel {
    const PackedKernel* packed;
    Arguments arguments;
};

}  // namespace qconv

struct qconv_bound {
    qconv_packed* packed;
    std::vector<qconv::Memory> memory;  // scratch, and intermediate tensors between kernels
    std::vector<qconv::BoundKernel> kernels;
};
