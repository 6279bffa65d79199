// qconv_kernels.h for C++: objects that free what they hold, exceptions, and launches that count their arrays.
//
//     namespace qk = qconv_kernels;
//     qk::Device device(0);
//     qk::Kernel kernel = device.lookup(QCONV_KEY_...);
//     qk::Packed packed(device, kernel, {w}, qk::Parameters().set("w_scale", 0.005), stream);
//     qk::Workspace workspace(device, packed, stream);
//     packed.launch({x}, {y}, workspace, stream);
//
// An object must outlive those made from it: a device its packed weights, and these their workspaces. A launch
// allocates nothing. With QCONV_PREFIX the namespace has the prefix too, but is written without it.
#ifndef QCONV_KERNELS_HPP
#define QCONV_KERNELS_HPP

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "qconv_kernels.h"

#ifdef QCONV_PREFIX
#define qconv_kernels QCONV_NAMED(qconv_kernels)
#endif

namespace qconv_kernels {

// What a function of the library returned, with its sentence.
class Error : public std::runtime_error {
  public:
    Error(qconv_status status, const std::string& text)
        : std::runtime_error(std::string(qconv_status_text(status)) + ": " + text), status_(status) {}
    qconv_status status() const noexcept { return status_; }

  private:
    qconv_status status_;
};

inline void check(qconv_status status) {
    if (status != QCONV_OK) throw Error(status, qconv_last_error());
}

// A kernel of the library's table, which is never freed.
class Kernel {
  public:
    explicit Kernel(const qconv_kernel* handle) : handle_(handle) {}

    const qconv_kernel* handle() const noexcept { return handle_; }
    std::string key() const { return qconv_key_of(handle_); }
    std::string target() const { return qconv_target_of(handle_); }
    std::string tuned_on() const { return qconv_tuned_on(handle_); }
    size_t workspace_bytes() const { return qconv_workspace_bytes(handle_); }

    // The inputs, the weights, the outputs.
    std::vector<qconv_tensor> tensors() const {
        std::vector<qconv_tensor> all;
        for (qconv_tensor tensor; qconv_tensor_of(handle_, all.size(), &tensor) == QCONV_OK;) all.push_back(tensor);
        return all;
    }
    std::vector<qconv_tensor> tensors(qconv_role role) const {
        std::vector<qconv_tensor> found;
        for (const qconv_tensor& tensor : tensors())
            if (tensor.role == role) found.push_back(tensor);
        return found;
    }
    // The names of the parameters, and whether a call must give them.
    std::vector<std::pair<std::string, bool>> parameters() const {
        std::vector<std::pair<std::string, bool>> all;
        int required = 0;
        while (const char* name = qconv_parameter_of(handle_, all.size(), &required))
            all.emplace_back(name, required != 0);
        return all;
    }

  private:
    const qconv_kernel* handle_;
};

class Device {
  public:
    explicit Device(int index = 0) {
        qconv_device* made = nullptr;
        check(qconv_open(index, &made));
        handle_.reset(made);
    }
    static int count() {
        int count = 0;
        check(qconv_device_count(&count));
        return count;
    }

    qconv_device* handle() const noexcept { return handle_.get(); }
    std::string name() const { return qconv_device_name(handle()); }
    Kernel lookup(const std::string& key) const {
        const qconv_kernel* found = nullptr;
        check(qconv_lookup(handle(), key.c_str(), &found));
        return Kernel(found);
    }
    void synchronize(qconv_stream stream = nullptr) const { check(qconv_synchronize(handle(), stream)); }

  private:
    struct Close {
        void operator()(qconv_device* device) const { qconv_close(device); }
    };
    std::unique_ptr<qconv_device, Close> handle_;
};

// Memory of a device.
class Memory {
  public:
    Memory(const Device& device, size_t bytes) : bytes_(bytes), address_(nullptr, Free{device.handle()}) {
        void* made = nullptr;
        check(qconv_allocate(device.handle(), bytes, &made));
        address_.reset(made);
    }
    template <typename T>
    Memory(const Device& device, const std::vector<T>& content) : Memory(device, content.size() * sizeof(T)) {
        upload(content.data());
    }

    void* data() const noexcept { return address_.get(); }
    size_t bytes() const noexcept { return bytes_; }
    void upload(const void* from_host) { check(qconv_upload(address_.get_deleter().device, data(), from_host, bytes_)); }
    void download(void* to_host) const { check(qconv_download(address_.get_deleter().device, to_host, data(), bytes_)); }

  private:
    struct Free {
        qconv_device* device;
        void operator()(void* memory) const { qconv_free(device, memory); }
    };
    size_t bytes_;
    std::unique_ptr<void, Free> address_;
};

// The parameters of a problem by name: one value, or one per output channel.
class Parameters {
  public:
    Parameters& set(const std::string& name, std::vector<double> values) & {
        reals_.emplace_back(name, std::move(values));
        return *this;
    }
    Parameters& set(const std::string& name, std::vector<int32_t> values) & {
        integers_.emplace_back(name, std::move(values));
        return *this;
    }
    Parameters& set(const std::string& name, double value) & { return set(name, std::vector<double>{value}); }
    Parameters& set(const std::string& name, int32_t value) & { return set(name, std::vector<int32_t>{value}); }
    template <typename Value>
    Parameters&& set(const std::string& name, Value value) && {
        set(name, std::move(value));
        return std::move(*this);
    }

    // Refers to the values of this object.
    std::vector<qconv_parameter> rows() const {
        std::vector<qconv_parameter> all;
        for (const auto& one : reals_)
            all.push_back({one.first.c_str(), QCONV_FLOAT64, one.second.size(), one.second.data()});
        for (const auto& one : integers_)
            all.push_back({one.first.c_str(), QCONV_INT32, one.second.size(), one.second.data()});
        return all;
    }

  private:
    std::vector<std::pair<std::string, std::vector<double>>> reals_;
    std::vector<std::pair<std::string, std::vector<int32_t>>> integers_;
};

class Workspace;

// Weights and parameters, ready to launch. Several threads may launch it, each with a workspace of its own.
class Packed {
  public:
    Packed(const Device& device, const Kernel& kernel, const std::vector<const void*>& weights,
           const Parameters& parameters = {}, qconv_stream stream = nullptr)
        : kernel_(kernel),
          inputs_(kernel.tensors(QCONV_INPUT).size()),
          outputs_(kernel.tensors(QCONV_OUTPUT).size()) {
        expect("weights", weights.size(), kernel.tensors(QCONV_WEIGHTS).size());
        const std::vector<qconv_parameter> rows = parameters.rows();
        qconv_packed* made = nullptr;
        check(qconv_pack(device.handle(), kernel.handle(), weights.data(), rows.data(), rows.size(), stream, &made));
        handle_.reset(made);
    }

    qconv_packed* handle() const noexcept { return handle_.get(); }
    const Kernel& kernel() const noexcept { return kernel_; }
    void refold(qconv_stream stream = nullptr) { check(qconv_refold(handle(), stream)); }

    void launch(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs,
                const Workspace& workspace, qconv_stream stream = nullptr) const {
        run(qconv_launch, inputs.begin(), inputs.size(), outputs.begin(), outputs.size(), workspace, stream);
    }
    void launch(const std::vector<const void*>& inputs, const std::vector<void*>& outputs, const Workspace& workspace,
                qconv_stream stream = nullptr) const {
        run(qconv_launch, inputs.data(), inputs.size(), outputs.data(), outputs.size(), workspace, stream);
    }
    // May begin before the kernel in front of it on the stream has ended: see qconv_launch_overlapping.
    void launch_overlapping(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs,
                            const Workspace& workspace, qconv_stream stream = nullptr) const {
        run(qconv_launch_overlapping, inputs.begin(), inputs.size(), outputs.begin(), outputs.size(), workspace,
            stream);
    }

  private:
    void expect(const char* what, size_t given, size_t wanted) const {
        if (given != wanted)
            throw Error(QCONV_BAD_ARGUMENT, std::to_string(given) + " " + what + " were given, and " + kernel_.key() +
                                                " takes " + std::to_string(wanted) + ": give those of its tensors()");
    }
    void run(decltype(&qconv_launch) launch, const void* const* inputs, size_t input_count, void* const* outputs,
             size_t output_count, const Workspace& workspace, qconv_stream stream) const;

    struct Free {
        void operator()(qconv_packed* packed) const { qconv_packed_free(packed); }
    };
    Kernel kernel_;
    size_t inputs_, outputs_;
    std::unique_ptr<qconv_packed, Free> handle_;
};

// Device memory for the launches of one stream or thread, prepared.
class Workspace {
  public:
    Workspace(const Device& device, const Packed& packed, qconv_stream stream = nullptr)
        : memory_(device, packed.kernel().workspace_bytes()) {
        check(qconv_workspace_prepare(packed.handle(), memory_.data(), memory_.bytes(), stream));
    }
    void* data() const noexcept { return memory_.data(); }
    size_t bytes() const noexcept { return memory_.bytes(); }

  private:
    Memory memory_;
};

inline void Packed::run(decltype(&qconv_launch) launch, const void* const* inputs, size_t input_count,
                        void* const* outputs, size_t output_count, const Workspace& workspace,
                        qconv_stream stream) const {
    expect("inputs", input_count, inputs_);
    expect("outputs", output_count, outputs_);
    check(launch(handle(), inputs, outputs, workspace.data(), workspace.bytes(), stream));
}

}  // namespace qconv_kernels

#endif
