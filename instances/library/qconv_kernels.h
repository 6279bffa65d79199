/* The C interface of this library of convolution kernels.
 *
 * From a problem's key to a launch there are four steps, each of which can be repeated with the result of the one
 * before it: open a device, look a kernel up, pack the weights with the parameters, bind the arrays. A launch then
 * has nothing left to do but to launch.
 *
 *     qconv_device* device;
 *     const qconv_kernel* kernel;
 *     qconv_packed* packed;
 *     qconv_bound* bound;
 *     qconv_open(0, &device);
 *     qconv_lookup(device, "conv2d:n=1:...", &kernel);
 *     qconv_pack(device, kernel, weights, parameters, parameter_count, stream, &packed);
 *     qconv_bind(packed, inputs, outputs, &bound);
 *     qconv_launch(bound, stream);
 *
 * Every function that can fail returns a qconv_status; what went wrong is then in qconv_last_error(), one sentence
 * with a remedy, which is the calling thread's own. Arrays lie where the kernels run: on the GPU, or for the CPU in
 * the memory of this process. Tensors are contiguous; their types and shapes are those that qconv_tensor_of tells.
 *
 * Threads: any number may use one device, and launch different qconv_bound objects at the same time. The launches of
 * one qconv_bound follow each other on one stream, for they share its scratch memory; bind again for another stream.
 *
 * Several libraries in one program: all but one are configured with CMake's -DQCONV_PREFIX=NAME, so that nothing of two
 * has the same name (NAME_qconv_open, NAME_qconv_kernels and so on). A file of the program calls one of them: before it
 * includes this header for such a library, it defines QCONV_PREFIX as NAME, and then writes qconv_open as everywhere.
 *
 * Versions: a program asks qconv_abi_version() and compares it with the QCONV_ABI_VERSION that it was compiled with.
 * Functions and enumerators are added without a new version; nothing is changed or taken away without one.
 */
#ifndef QCONV_KERNELS_H
#define QCONV_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef QCONV_PREFIX
#define QCONV_JOINED(prefix, name) prefix##_##name
#define QCONV_EXPANDED(prefix, name) QCONV_JOINED(prefix, name)
#define QCONV_NAMED(name) QCONV_EXPANDED(QCONV_PREFIX, name)
#define qconv_device QCONV_NAMED(qconv_device)
#define qconv_kernel QCONV_NAMED(qconv_kernel)
#define qconv_packed QCONV_NAMED(qconv_packed)
#define qconv_bound QCONV_NAMED(qconv_bound)
#define qconv_abi_version QCONV_NAMED(qconv_abi_version)
#define qconv_last_error QCONV_NAMED(qconv_last_error)
#define qconv_kernel_count QCONV_NAMED(qconv_kernel_count)
#define qconv_kernel_at QCONV_NAMED(qconv_kernel_at)
#define qconv_key_of QCONV_NAMED(qconv_key_of)
#define qconv_target_of QCONV_NAMED(qconv_target_of)
#define qconv_tuned_on QCONV_NAMED(qconv_tuned_on)
#define qconv_time_us_of QCONV_NAMED(qconv_time_us_of)
#define qconv_tensor_of QCONV_NAMED(qconv_tensor_of)
#define qconv_parameter_of QCONV_NAMED(qconv_parameter_of)
#define qconv_open QCONV_NAMED(qconv_open)
#define qconv_close QCONV_NAMED(qconv_close)
#define qconv_device_name QCONV_NAMED(qconv_device_name)
#define qconv_lookup QCONV_NAMED(qconv_lookup)
#define qconv_pack QCONV_NAMED(qconv_pack)
#define qconv_refold QCONV_NAMED(qconv_refold)
#define qconv_packed_free QCONV_NAMED(qconv_packed_free)
#define qconv_bind QCONV_NAMED(qconv_bind)
#define qconv_bound_free QCONV_NAMED(qconv_bound_free)
#define qconv_launch QCONV_NAMED(qconv_launch)
#define qconv_turn_weights QCONV_NAMED(qconv_turn_weights)
#define qconv_allocate QCONV_NAMED(qconv_allocate)
#define qconv_free QCONV_NAMED(qconv_free)
#define qconv_upload QCONV_NAMED(qconv_upload)
#define qconv_download QCONV_NAMED(qconv_download)
#define qconv_synchronize QCONV_NAMED(qconv_synchronize)
#endif

/* Nothing else of a shared library is seen from outside. */
#if defined(__GNUC__)
#define QCONV_API __attribute__((visibility("default")))
#else
#define QCONV_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define QCONV_ABI_VERSION 1

typedef enum qconv_status {
    QCONV_OK = 0,
    QCONV_BAD_ARGUMENT = 1,  /* what was given is wrong, or does not belong to this problem */
    QCONV_NO_KERNEL = 2,     /* the library has no kernel for this problem on this device */
    QCONV_NO_DEVICE = 3,     /* there is no such device, or no driver for it */
    QCONV_NO_MEMORY = 4,     /* the host or the device has too little memory */
    QCONV_LAUNCH_FAILED = 5, /* the driver, or the CPU runtime, refused or failed */
    QCONV_INTERNAL = 6       /* an error of this library */
} qconv_status;

typedef enum qconv_type { QCONV_INT32 = 1, QCONV_FLOAT32 = 2, QCONV_FLOAT64 = 3 } qconv_type;

typedef enum qconv_role { QCONV_INPUT = 1, QCONV_WEIGHTS = 2, QCONV_OUTPUT = 3 } qconv_role;

typedef struct qconv_device qconv_device;
typedef struct qconv_kernel qconv_kernel; /* belongs to the library; is never freed */
typedef struct qconv_packed qconv_packed;
typedef struct qconv_bound qconv_bound;

/* A CUstream (which a cudaStream_t is), a hipStream_t, or null: the default stream, and all that the CPU has. */
typedef void* qconv_stream;

/* A scale, a zero point, a bias: by the name that the Python interface has for it. The values are in host memory: one,
 * or one for each output channel. Scales may be of any type; zero points and an int32 bias are QCONV_INT32, and so are
 * the 256 values of a table. */
typedef struct qconv_parameter {
    const char* name;
    qconv_type type;
    size_t count;
    const void* values;
} qconv_parameter;

typedef struct qconv_tensor {
    const char* name; /* "x", "w", "residual", "y", ... */
    const char* type; /* "int8", "uint8", "int32", "float16", "bfloat16", "float32" */
    qconv_role role;
    unsigned rank;
    uint64_t shape[8]; /* the outermost dimension first; merged into the first where there are more than eight */
    uint64_t bytes;
    unsigned alignment; /* bytes that the array's address must be a multiple of */
} qconv_tensor;

QCONV_API int qconv_abi_version(void);

/* What the calling thread's last failure was; "" where nothing has failed. */
QCONV_API const char* qconv_last_error(void);

/* The kernels of the library, in the order of their keys. */
QCONV_API size_t qconv_kernel_count(void);
QCONV_API const qconv_kernel* qconv_kernel_at(size_t index); /* null beyond the last */
QCONV_API const char* qconv_key_of(const qconv_kernel* kernel);
QCONV_API const char* qconv_target_of(const qconv_kernel* kernel); /* "sm_90a", "gfx942", "cpu" */
QCONV_API const char* qconv_tuned_on(const qconv_kernel* kernel);  /* the device's name; "" for an untuned default */
QCONV_API double qconv_time_us_of(const qconv_kernel* kernel);     /* as it was measured there; 0 where it was not */

/* The tensors of a problem, the inputs first, then the weights, then the outputs: the order in which the arrays of one
 * role are given. Both return QCONV_BAD_ARGUMENT beyond the last. */
QCONV_API qconv_status qconv_tensor_of(const qconv_kernel* kernel, size_t index, qconv_tensor* tensor);

/* The names of a problem's parameters; null beyond the last. Each is optional where `required` becomes 0. */
QCONV_API const char* qconv_parameter_of(const qconv_kernel* kernel, size_t index, int* required);

/* The device of this number. On CUDA, its primary context is used, or the one that is current and belongs to it. */
QCONV_API qconv_status qconv_open(int index, qconv_device** device);
QCONV_API void qconv_close(qconv_device* device); /* after all that was packed on it */
QCONV_API const char* qconv_device_name(const qconv_device* device);

/* The kernel for a problem, tuned on this very device if there is one, else the best of those that run here. It is
 * loaded by the first lookup. */
QCONV_API qconv_status qconv_lookup(qconv_device* device, const char* key, const qconv_kernel** kernel);

/* Checks the parameters, uploads what the kernel reads of them, and launches on the stream what folds zero points and
 * repacks weights. The weights are read where they lie, now and by every launch: they must outlive what is made. */
QCONV_API qconv_status qconv_pack(qconv_device* device, const qconv_kernel* kernel, const void* const* weights,
                                  const qconv_parameter* parameters, size_t parameter_count, qconv_stream stream,
                                  qconv_packed** packed);

/* Folds and repacks once more, after new weights were written into the same arrays. */
QCONV_API qconv_status qconv_refold(qconv_packed* packed, qconv_stream stream);
QCONV_API void qconv_packed_free(qconv_packed* packed); /* after all that was bound to it */

/* Asks for scratch memory, encodes tensor maps and packs the arguments. Waits for the device, so that launches on any
 * stream find everything there; do not bind while a stream is captured. An output may not overlap any other array,
 * but it may be an input of which each of its elements needs one alone: a residual, or a term of a sum. */
QCONV_API qconv_status qconv_bind(qconv_packed* packed, const void* const* inputs, void* const* outputs,
                                  qconv_bound** bound);
QCONV_API void qconv_bound_free(qconv_bound* bound); /* after its last launch has ended */

/* On the GPU it returns when the kernels are queued, and can be captured in a graph; on the CPU when they have ended. */
QCONV_API qconv_status qconv_launch(qconv_bound* bound, qconv_stream stream);

/* Weights in host memory from KCRS to KRSC (or, of a problem with layout=nchw, the other way round), which is the
 * layout that kernels read: `index` counts the weights of the problem. */
QCONV_API qconv_status qconv_turn_weights(const qconv_kernel* kernel, size_t index, const void* given, void* turned);

/* Memory of the device, for programs that have no other means. Copies wait until they are done. */
QCONV_API qconv_status qconv_allocate(qconv_device* device, size_t bytes, void** memory);
QCONV_API void qconv_free(qconv_device* device, void* memory);
QCONV_API qconv_status qconv_upload(qconv_device* device, void* to, const void* from_host, size_t bytes);
QCONV_API qconv_status qconv_download(qconv_device* device, void* to_host, const void* from, size_t bytes);
QCONV_API qconv_status qconv_synchronize(qconv_device* device);

#ifdef __cplusplus
}
#endif

#endif
