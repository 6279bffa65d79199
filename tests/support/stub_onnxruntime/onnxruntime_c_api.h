// The declarations of ONNX Runtime's C header that the custom operator uses, for machines with ONNX Runtime but without
// its header: its Python package has none. OrtApi is a table of functions to which releases only append, so that a place
// in it is for ever; places between those that are used are gaps. tests/instances/library/test_onnxruntime_op.py calls
// an installed ONNX Runtime through them.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct OrtStatus OrtStatus;
typedef OrtStatus* OrtStatusPtr;
typedef struct OrtValue OrtValue;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtShapeInferContext OrtShapeInferContext;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtCustomOp OrtCustomOp;

typedef enum OrtErrorCode { ORT_OK = 0, ORT_FAIL = 1 } OrtErrorCode;
typedef enum OrtOpAttrType { ORT_OP_ATTR_STRING = 5 } OrtOpAttrType;
typedef enum OrtMemType { OrtMemTypeDefault = 0 } OrtMemType;
typedef enum OrtCustomOpInputOutputCharacteristic { INPUT_OUTPUT_VARIADIC = 2 } OrtCustomOpInputOutputCharacteristic;
typedef enum ONNXTensorElementDataType {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
} ONNXTensorElementDataType;

typedef struct OrtApi {
    OrtStatus* (*CreateStatus)(OrtErrorCode code, const char* text);  // 0
    void* gap_before_2[1];
    const char* (*GetErrorMessage)(const OrtStatus* status);  // 2
    void* gap_before_26[23];
    OrtStatus* (*CreateCustomOpDomain)(const char* domain, OrtCustomOpDomain** made);  // 26
    OrtStatus* (*CustomOpDomain_Add)(OrtCustomOpDomain* domain, const OrtCustomOp* op);  // 27
    OrtStatus* (*AddCustomOpDomain)(OrtSessionOptions* options, OrtCustomOpDomain* domain);  // 28
    void* gap_before_51[22];
    OrtStatus* (*GetTensorMutableData)(OrtValue* value, void** data);  // 51
    void* gap_before_57[5];
    OrtStatus* (*CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo** made);  // 57
    OrtStatus* (*SetTensorElementType)(OrtTensorTypeAndShapeInfo* info, ONNXTensorElementDataType type);  // 58
    OrtStatus* (*SetDimensions)(OrtTensorTypeAndShapeInfo* info, const int64_t* dims, size_t rank);  // 59
    OrtStatus* (*GetTensorElementType)(const OrtTensorTypeAndShapeInfo* info, ONNXTensorElementDataType* type);  // 60
    OrtStatus* (*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo* info, size_t* rank);  // 61
    OrtStatus* (*GetDimensions)(const OrtTensorTypeAndShapeInfo* info, int64_t* dims, size_t rank);  // 62
    void* gap_before_65[2];
    OrtStatus* (*GetTensorTypeAndShape)(const OrtValue* value, OrtTensorTypeAndShapeInfo** made);  // 65
    void* gap_before_85[19];
    OrtStatus* (*KernelInfoGetAttribute_float)(const OrtKernelInfo* info, const char* name, float* value);  // 85
    OrtStatus* (*KernelInfoGetAttribute_int64)(const OrtKernelInfo* info, const char* name, int64_t* value);  // 86
        OrtStatus* (*KernelInfoGetAttribute_string)(const OrtKernelInfo* info, const char* name, char* text, size_t*
        bytes);  // 87
    void* gap_before_90[2];
        OrtStatus* (*KernelContext_GetInput)(const OrtKernelContext* context, size_t index, const OrtValue** value);
        // 90
        OrtStatus* (*KernelContext_GetOutput)(OrtKernelContext* context, size_t index, const int64_t* dims, size_t
        rank, OrtValue** value);  // 91
    void* gap_before_93[1];
    void (*ReleaseStatus)(OrtStatus* status);  // 93
    void* gap_before_99[5];
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo* info);  // 99
    void* gap_before_162[62];
        OrtStatus* (*KernelInfoGetAttributeArray_float)(const OrtKernelInfo* info, const char* name, float* values,
        size_t* count);  // 162
        OrtStatus* (*KernelInfoGetAttributeArray_int64)(const OrtKernelInfo* info, const char* name, int64_t* values,
        size_t* count);  // 163
    void* gap_before_193[29];
    OrtStatus* (*KernelContext_GetGPUComputeStream)(const OrtKernelContext* context, void** stream);  // 193
    void* gap_before_249[55];
        OrtStatus* (*KernelInfoGetConstantInput_tensor)(const OrtKernelInfo* info, size_t index, int* is_constant,
        const OrtValue** value);  // 249
    void* gap_before_269[19];
        OrtStatus* (*ShapeInferContext_GetAttribute)(const OrtShapeInferContext* context, const char* name, const
        OrtOpAttr** attribute);  // 269
        OrtStatus* (*ShapeInferContext_SetOutputTypeShape)(const OrtShapeInferContext* context, size_t index, const
        OrtTensorTypeAndShapeInfo* info);  // 270
    void* gap_before_272[1];
        OrtStatus* (*ReadOpAttr)(const OrtOpAttr* attribute, OrtOpAttrType type, void* data, size_t bytes, size_t*
        needed);  // 272
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi* (*GetApi)(uint32_t version);
    const char* (*GetVersionString)(void);
} OrtApiBase;

// ONNX Runtime reads the members that `version` has; those of later versions come last.
struct OrtCustomOp {
    uint32_t version;
    void* (*CreateKernel)(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info);
    const char* (*GetName)(const OrtCustomOp* op);
    const char* (*GetExecutionProviderType)(const OrtCustomOp* op);
    ONNXTensorElementDataType (*GetInputType)(const OrtCustomOp* op, size_t index);
    size_t (*GetInputTypeCount)(const OrtCustomOp* op);
    ONNXTensorElementDataType (*GetOutputType)(const OrtCustomOp* op, size_t index);
    size_t (*GetOutputTypeCount)(const OrtCustomOp* op);
    void (*KernelCompute)(void* kernel, OrtKernelContext* context);
    void (*KernelDestroy)(void* kernel);
    OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const OrtCustomOp* op, size_t index);
    OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp* op, size_t index);
    OrtMemType (*GetInputMemoryType)(const OrtCustomOp* op, size_t index);
    int (*GetVariadicInputMinArity)(const OrtCustomOp* op);
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp* op);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp* op);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp* op);
    OrtStatusPtr (*CreateKernelV2)(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** kernel);
    OrtStatusPtr (*KernelComputeV2)(void* kernel, OrtKernelContext* context);
    OrtStatusPtr (*InferOutputShapeFn)(const OrtCustomOp* op, OrtShapeInferContext* context);
    int (*GetStartVersion)(const OrtCustomOp* op);
    int (*GetEndVersion)(const OrtCustomOp* op);
    size_t (*GetMayInplace)(int** inputs, int** outputs);
    void (*ReleaseMayInplace)(int* inputs, int* outputs);
    size_t (*GetAliasMap)(int** inputs, int** outputs);
    void (*ReleaseAliasMap)(int* inputs, int* outputs);
};
