// The kernels of this library as an operator of ONNX Runtime, for programs that have it already: register the shared
// library by SessionOptions::RegisterCustomOpsLibrary (C++) or register_custom_ops_library (Python).
//
// A node of the domain "qconv" has the op type "Kernel" and these attributes:
//     key      the problem, in any spelling
//     device   the index of the device, by default 0
//     others   the problem's parameters under their names: floats for scales, ints for zero points and an int32 bias
// Its inputs are the problem's inputs and then its weights, which must be initializers; its outputs are the problem's.
// Types and shapes of outputs are inferred.
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "qconv_kernels.hpp"

namespace {

namespace qk = qconv_kernels;

constexpr uint32_t API_VERSION = 17;  // the first that infers the types of a custom operator's outputs
const OrtApi* ort = nullptr;

// Throws what ONNX Runtime returned.
void check(OrtStatus* status) {
    if (status == nullptr) return;
    const std::string text = ort->GetErrorMessage(status);
    ort->ReleaseStatus(status);
    throw std::runtime_error(text);
}

// Runs `work` and returns its error as a status.
template <typename Work>
OrtStatus* guarded(Work work) noexcept {
    try {
        work();
        return nullptr;
    } catch (const std::exception& error) {
        return ort->CreateStatus(ORT_FAIL, error.what());
    }
}

ONNXTensorElementDataType type_of(const qconv_tensor& tensor) {
    static const std::map<std::string, ONNXTensorElementDataType> types = {
        {"int8", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},       {"uint8", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
        {"int16", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},     {"uint16", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
        {"int32", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},     {"int64", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
        {"bool", ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},       {"float16", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
        {"float32", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},   {"float64", ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
        {"bfloat16", ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    };
    return types.at(tensor.type);
}

std::vector<int64_t> shape_of(const qconv_tensor& tensor) {
    return std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank);
}

std::string text_of(const std::vector<int64_t>& shape) {
    std::string text;
    for (int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "(" + text + ")";
}

// The device of an index, which the nodes share and the last one closes.
std::shared_ptr<qk::Device> device_of(int index) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<qk::Device>> opened;
    const std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<qk::Device> found = opened[index].lock();
    if (found == nullptr) opened[index] = found = std::make_shared<qk::Device>(index);
    return found;
}

// Prepared workspaces. Nodes run on several streams and, on the CPU, threads: each launch takes one of its stream, and
// gives it back for the next one there.
class Workspaces {
  public:
    std::unique_ptr<qk::Workspace> take(const qk::Device& device, const qk::Packed& packed, qconv_stream stream) {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::vector<std::unique_ptr<qk::Workspace>>& idle = idle_[stream];
        if (idle.empty()) return std::make_unique<qk::Workspace>(device, packed, stream);
        std::unique_ptr<qk::Workspace> last = std::move(idle.back());
        idle.pop_back();
        return last;
    }
    void give_back(std::unique_ptr<qk::Workspace> one, qconv_stream stream) {
        const std::lock_guard<std::mutex> lock(mutex_);
        idle_[stream].push_back(std::move(one));
    }

  private:
    std::mutex mutex_;
    std::map<qconv_stream, std::vector<std::unique_ptr<qk::Workspace>>> idle_;
};

// The attributes of a node.
class Attributes {
  public:
    explicit Attributes(const OrtKernelInfo* info) : info_(info) {}

    std::string text(const char* name) const {
        size_t bytes = 0;
        const bool is_there = has(ort->KernelInfoGetAttribute_string(info_, name, nullptr, &bytes));
        if (!is_there && bytes == 0) throw std::runtime_error(std::string("the node has no ") + name + ": give it");
        std::string text(bytes, '\0');
        check(ort->KernelInfoGetAttribute_string(info_, name, &text[0], &bytes));
        return text.c_str();  // without the zero at its end
    }
    int integer(const char* name, int otherwise) const {
        int64_t value = otherwise;
        return has(ort->KernelInfoGetAttribute_int64(info_, name, &value)) ? static_cast<int>(value) : otherwise;
    }
    // Adds a parameter if the node has it, as one number or as a list.
    void add_to(qk::Parameters& parameters, const std::string& name) const {
        const std::vector<int64_t> integers = list<int64_t>(name, ort->KernelInfoGetAttribute_int64,
                                                            ort->KernelInfoGetAttributeArray_int64);
        if (!integers.empty()) parameters.set(name, std::vector<int32_t>(integers.begin(), integers.end()));
        const std::vector<float> reals = list<float>(name, ort->KernelInfoGetAttribute_float,
                                                     ort->KernelInfoGetAttributeArray_float);
        if (!reals.empty()) parameters.set(name, std::vector<double>(reals.begin(), reals.end()));
    }

  private:
    static bool has(OrtStatus* status) {
        if (status != nullptr) ort->ReleaseStatus(status);
        return status == nullptr;
    }
    template <typename T, typename One, typename Several>
    std::vector<T> list(const std::string& name, One one, Several several) const {
        T value = {};
        if (has(one(info_, name.c_str(), &value))) return {value};
        size_t count = 0;
        has(several(info_, name.c_str(), nullptr, &count));
        std::vector<T> values(count);
        if (count > 0) check(several(info_, name.c_str(), values.data(), &count));
        return values;
    }

    const OrtKernelInfo* info_;
};

// A node of a session.
class Node {
  public:
    explicit Node(const OrtKernelInfo* info)
        : device_(device_of(Attributes(info).integer("device", 0))),
          kernel_(device_->lookup(Attributes(info).text("key"))),
          inputs_(kernel_.tensors(QCONV_INPUT)),
          outputs_(kernel_.tensors(QCONV_OUTPUT)) {
        qk::Parameters parameters;
        for (const auto& parameter : kernel_.parameters()) Attributes(info).add_to(parameters, parameter.first);
        std::vector<const void*> weights;
        for (const qconv_tensor& tensor : kernel_.tensors(QCONV_WEIGHTS))
            weights.push_back(initializer(info, inputs_.size() + weights.size(), tensor));
        packed_ = std::make_unique<qk::Packed>(*device_, kernel_, weights, parameters);
    }

    void compute(OrtKernelContext* context) {
        qconv_stream stream = nullptr;
        if (kernel_.target().compare(0, 3, "cpu") != 0) check(ort->KernelContext_GetGPUComputeStream(context, &stream));
        std::vector<const void*> inputs;
        for (const qconv_tensor& tensor : inputs_) {
            const OrtValue* value = nullptr;
            check(ort->KernelContext_GetInput(context, inputs.size(), &value));
            inputs.push_back(data(value, tensor));
        }
        std::vector<void*> outputs;
        for (const qconv_tensor& tensor : outputs_) {
            const std::vector<int64_t> shape = shape_of(tensor);
            OrtValue* value = nullptr;
            check(ort->KernelContext_GetOutput(context, outputs.size(), shape.data(), shape.size(), &value));
            outputs.push_back(const_cast<void*>(data(value, tensor)));
        }
        std::unique_ptr<qk::Workspace> workspace = workspaces_.take(*device_, *packed_, stream);
        packed_->launch(inputs, outputs, *workspace, stream);
        workspaces_.give_back(std::move(workspace), stream);
    }

  private:
    // ONNX Runtime keeps the initializers of a session as long as its nodes, so that the kernel reads them in place.
    static const void* initializer(const OrtKernelInfo* info, size_t index, const qconv_tensor& tensor) {
        int is_constant = 0;
        const OrtValue* value = nullptr;
        check(ort->KernelInfoGetConstantInput_tensor(info, index, &is_constant, &value));
        if (is_constant == 0 || value == nullptr)
            throw std::runtime_error(std::string("input ") + std::to_string(index) + " is " + tensor.name +
                                     ", which is packed when the session is made: give it as an initializer");
        return data(value, tensor);
    }

    // Returns the address of a tensor, or throws where it is another one than the kernel takes.
    static const void* data(const OrtValue* value, const qconv_tensor& wanted) {
        OrtTensorTypeAndShapeInfo* raw = nullptr;
        check(ort->GetTensorTypeAndShape(value, &raw));
        const std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo*)> info(
            raw, ort->ReleaseTensorTypeAndShapeInfo);
        ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        size_t rank = 0;
        check(ort->GetTensorElementType(raw, &type));
        check(ort->GetDimensionsCount(raw, &rank));
        std::vector<int64_t> shape(rank);
        check(ort->GetDimensions(raw, shape.data(), rank));
        if (type != type_of(wanted) || shape != shape_of(wanted))
            throw std::runtime_error(std::string(wanted.name) + " has shape " + text_of(shape) + " and type " +
                                     std::to_string(type) + " of ONNX Runtime; the kernel takes " +
                                     text_of(shape_of(wanted)) + " of " + wanted.type + ": convert it");
        void* address = nullptr;
        check(ort->GetTensorMutableData(const_cast<OrtValue*>(value), &address));
        return address;
    }

    std::shared_ptr<qk::Device> device_;
    qk::Kernel kernel_;
    std::vector<qconv_tensor> inputs_, outputs_;
    std::unique_ptr<qk::Packed> packed_;
    Workspaces workspaces_;
};

void infer(OrtShapeInferContext* context) {
    const OrtOpAttr* attribute = nullptr;
    check(ort->ShapeInferContext_GetAttribute(context, "key", &attribute));
    size_t bytes = 0;
    OrtStatus* const too_short = ort->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, nullptr, 0, &bytes);
    if (too_short != nullptr) ort->ReleaseStatus(too_short);  // says how many bytes there are
    std::string key(bytes, '\0');
    check(ort->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, &key[0], key.size(), &bytes));
    size_t index = 0;
    for (const qconv_tensor& tensor : device_of(0)->lookup(key).tensors(QCONV_OUTPUT)) {
        OrtTensorTypeAndShapeInfo* info = nullptr;
        check(ort->CreateTensorTypeAndShapeInfo(&info));
        const std::vector<int64_t> shape = shape_of(tensor);
        check(ort->SetTensorElementType(info, type_of(tensor)));
        check(ort->SetDimensions(info, shape.data(), shape.size()));
        check(ort->ShapeInferContext_SetOutputTypeShape(context, index++, info));
        ort->ReleaseTensorTypeAndShapeInfo(info);
    }
}

// The provider whose tensors the kernels read.
const char* provider() {
    const std::string target = qconv_target_of(qconv_kernel_at(0));
    if (target.compare(0, 3, "sm_") == 0) return "CUDAExecutionProvider";
    return target.compare(0, 3, "gfx") == 0 ? "ROCMExecutionProvider" : nullptr;
}

// The operator has any number of inputs and outputs, of any types.
OrtCustomOp operator_of() {
    OrtCustomOp op = {};
    op.version = API_VERSION;
    op.GetName = [](const OrtCustomOp*) { return "Kernel"; };
    op.GetExecutionProviderType = [](const OrtCustomOp*) { return provider(); };
    op.GetInputTypeCount = op.GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
    op.GetInputType = op.GetOutputType = [](const OrtCustomOp*, size_t) {
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    };
    op.GetInputCharacteristic = op.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) {
        return INPUT_OUTPUT_VARIADIC;
    };
    op.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
    op.GetVariadicInputMinArity = op.GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 1; };
    op.GetVariadicInputHomogeneity = op.GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
    op.GetStartVersion = [](const OrtCustomOp*) { return 1; };
    op.GetEndVersion = [](const OrtCustomOp*) { return 1; };
    op.CreateKernelV2 = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
        return guarded([&] { *kernel = new Node(info); });
    };
    op.KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
        return guarded([&] { static_cast<Node*>(kernel)->compute(context); });
    };
    op.KernelDestroy = [](void* kernel) { delete static_cast<Node*>(kernel); };
    op.InferOutputShapeFn = [](const OrtCustomOp*, OrtShapeInferContext* context) {
        return guarded([&] { infer(context); });
    };
    return op;
}

}  // namespace

extern "C" QCONV_API OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
    ort = base->GetApi(API_VERSION);
    if (ort == nullptr) {
        // Any version of the interface has what a status takes.
        ort = base->GetApi(1);
        return ort->CreateStatus(ORT_FAIL, "this ONNX Runtime is older than 1.17: install a newer one");
    }
    return guarded([&] {
        static const OrtCustomOp op = operator_of();
        // Sessions refer to the domain until the process ends.
        OrtCustomOpDomain* domain = nullptr;
        check(ort->CreateCustomOpDomain("qconv", &domain));
        check(ort->CustomOpDomain_Add(domain, &op));
        check(ort->AddCustomOpDomain(options, domain));
    });
}
