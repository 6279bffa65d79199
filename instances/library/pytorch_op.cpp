// The kernels of this library as a class of PyTorch, for C++ (libtorch) and TorchScript programs, and for Python:
//
//     torch.classes.load_library("libqconv_pytorch.so")
//     kernel = torch.classes.qconv_library.Kernel(key, [w], {"w_scale": torch.tensor([0.005])})
//     (y,) = kernel.run([x])
//
// In C++ include nothing: link the library and make the class by its name, or copy this file into the program.
// Launches are on PyTorch's current stream; outputs and workspaces are of its allocator.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/custom_class.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "qconv_kernels.hpp"

namespace {

namespace qk = qconv_kernels;

at::ScalarType type_of(const std::string& name) {
    static const std::map<std::string, at::ScalarType> types = {
        {"int8", at::kChar},   {"uint8", at::kByte}, {"int16", at::kShort},   {"int32", at::kInt},     {"int64", at::kLong},
        {"bool", at::kBool},   {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat},
        {"float64", at::kDouble}};
    return types.at(name);
}

std::vector<int64_t> shape_of(const qconv_tensor& tensor) {
    return std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank);
}

// The devices that are open, by index. They stay open until the process ends.
std::shared_ptr<qk::Device> device_of(int index) {
    static std::mutex mutex;
    static auto& opened = *new std::map<int, std::shared_ptr<qk::Device>>;
    const std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<qk::Device>& found = opened[index];
    if (found == nullptr) found = std::make_shared<qk::Device>(index);
    return found;
}

qk::Parameters parameters_of(const c10::Dict<std::string, at::Tensor>& given) {
    qk::Parameters parameters;
    for (const auto& one : given) {
        const at::Tensor flat = one.value().cpu().reshape({-1});
        if (at::isFloatingType(flat.scalar_type())) {
            const at::Tensor values = flat.to(at::kDouble).contiguous();
            parameters.set(one.key(), std::vector<double>(values.data_ptr<double>(),
                                                          values.data_ptr<double>() + values.numel()));
        } else {
            const at::Tensor values = flat.to(at::kInt).contiguous();
            parameters.set(one.key(), std::vector<int32_t>(values.data_ptr<int32_t>(),
                                                           values.data_ptr<int32_t>() + values.numel()));
        }
    }
    return parameters;
}

class Kernel : public torch::CustomClassHolder {
  public:
    Kernel(const std::string& key, std::vector<at::Tensor> weights, const c10::Dict<std::string, at::Tensor>& parameters,
           int64_t index)
        : device_(device_of(static_cast<int>(index))), kernel_(device_->lookup(key)), weights_(std::move(weights)) {
        const bool on_cpu = kernel_.target().compare(0, 3, "cpu") == 0;
        where_ = on_cpu ? at::Device(at::kCPU) : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
        const std::vector<const void*> addresses = checked(weights_, kernel_.tensors(QCONV_WEIGHTS));
        packed_ = std::make_unique<qk::Packed>(*device_, kernel_, addresses, parameters_of(parameters), stream());
    }

    std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
        const std::vector<const void*> read = checked(inputs, kernel_.tensors(QCONV_INPUT));
        std::vector<at::Tensor> outputs;
        std::vector<void*> written;
        for (const qconv_tensor& tensor : kernel_.tensors(QCONV_OUTPUT)) {
            outputs.push_back(at::empty(shape_of(tensor), at::device(where_).dtype(type_of(tensor.type))));
            written.push_back(outputs.back().data_ptr());
        }
        const qconv_stream on = stream();
        std::unique_ptr<qk::Workspace> workspace = take(on);
        packed_->launch(read, written, *workspace, on);
        const std::lock_guard<std::mutex> lock(mutex_);
        idle_[on].push_back(std::move(workspace));
        return outputs;
    }

  private:
    // Returns the addresses of tensors, or throws where one is another than the kernel takes.
    std::vector<const void*> checked(const std::vector<at::Tensor>& given, const std::vector<qconv_tensor>& wanted) const {
        TORCH_CHECK(given.size() == wanted.size(), given.size(), " tensors were given, and the kernel takes ",
                    wanted.size(), ": give those of qconv_tensor_of");
        std::vector<const void*> addresses;
        for (size_t i = 0; i < given.size(); ++i) {
            const at::Tensor& one = given[i];
            const std::vector<int64_t> shape = shape_of(wanted[i]);
            TORCH_CHECK(one.device() == where_ && one.scalar_type() == type_of(wanted[i].type) &&
                            one.sizes() == at::IntArrayRef(shape) && one.is_contiguous(),
                        wanted[i].name, " is ", one.toString(), " ", one.sizes(), " on ", one.device(),
                        "; the kernel takes contiguous ", wanted[i].type, " ", at::IntArrayRef(shape), " on ", where_,
                        ": convert it");
            addresses.push_back(one.const_data_ptr());
        }
        return addresses;
    }

    qconv_stream stream() const {
        if (where_.is_cpu()) return nullptr;
        return c10::impl::VirtualGuardImpl(where_.type()).getStream(where_).native_handle();
    }

    // A launch takes a workspace that is idle on its stream, so that threads and streams share none.
    std::unique_ptr<qk::Workspace> take(qconv_stream on) {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::vector<std::unique_ptr<qk::Workspace>>& idle = idle_[on];
        if (idle.empty()) return std::make_unique<qk::Workspace>(*device_, *packed_, on);
        std::unique_ptr<qk::Workspace> last = std::move(idle.back());
        idle.pop_back();
        return last;
    }

    std::shared_ptr<qk::Device> device_;
    qk::Kernel kernel_;
    at::Device where_ = at::kCPU;
    std::vector<at::Tensor> weights_;  // the kernel reads them in place
    std::unique_ptr<qk::Packed> packed_;
    std::mutex mutex_;
    std::map<qconv_stream, std::vector<std::unique_ptr<qk::Workspace>>> idle_;
};

}  // namespace

TORCH_LIBRARY(qconv_library, library) {
    library.class_<Kernel>("Kernel")
        .def(torch::init<std::string, std::vector<at::Tensor>, c10::Dict<std::string, at::Tensor>, int64_t>(), "",
             {torch::arg("key"), torch::arg("weights"), torch::arg("parameters"), torch::arg("index") = 0})
        .def("run", &Kernel::run);
}
