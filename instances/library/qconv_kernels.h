/* The C interface of this library of convolution kernels.
 *
 * There are four steps from a problem's key to a launch: open a device, look up a kernel, pack the weights with the
 * parameters, and launch. Each step can be repeated with the result of the step before. A launch takes the arrays of
 * this call, allocates nothing and waits for nothing.
 *
 *     qconv_device* device;
 *     const qconv_kernel* kernel;
 *     qconv_packed* packed;
 *     qconv_open(0, &device);
 *     qconv_lookup(device, QCONV_KEY_..., &kernel);
 *     qconv_pack(device, kernel, weights, parameters, parameter_count, stream, &packed);
 *     size_t bytes = qconv_workspace_bytes(kernel);
 *     ... workspace: that many bytes, where the kernel runs ...
 *     qconv_workspace_prepare(packed, workspace, bytes, stream);
 *     qconv_launch(packed, inputs, outputs, workspace, bytes, stream);
 *
 * qconv_problems.h has the keys of this library as constants; any other spelling of a key finds the same kernel.
 * qconv_kernels.hpp wraps this interface for C++: objects that free what they hold, and exceptions.
 *
 * Every function that can fail returns a qconv_status. qconv_last_error() then returns the calling thread's error, a
 * sentence with a remedy. Arrays are where the kernels run: on the GPU, or for the CPU in the memory of this process.
 * Tensors are contiguous; qconv_tensor_of returns their types and shapes.
 *
 * Threads: several threads may use one device and launch one qconv_packed at the same time, each with a workspace of
 * its own. The launches that share a workspace have to follow each other on one stream.
 *
 * GPUs: a program may open several devices, and pack on each. A device's objects are used with arrays and streams of
 * that device, whichever one is current in the calling thread.
 *
 * Several libraries in one program: configure all but one with CMake's -DQCONV_PREFIX=NAME, so that no two have a name
 * in common (NAME_qconv_open, NAME_qconv_kernels and so on). A source file uses one library. For a library with a
 * prefix, define QCONV_PREFIX as NAME before including this header; the functions are then called qconv_open and so on
 * as usual.
 *
 * Versions: compare qconv_abi_version() with the QCONV_ABI_VERSION that the program was compiled with. Functions and
 * enumerators may be added in the same version; anything that is changed or removed makes a new one.
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
#define qconv_abi_version QCONV_NAMED(qconv_abi_version)
#define qconv_last_error QCONV_NAMED(qconv_last_error)
#define qconv_status_text QCONV_NAMED(qconv_status_text)
#define qconv_kernel_count QCONV_NAMED(qconv_kernel_count)
#define qconv_kernel_at QCONV_NAMED(qconv_kernel_at)
#define qconv_key_of QCONV_NAMED(qconv_key_of)
#define qconv_target_of QCONV_NAMED(qconv_target_of)
#define qconv_tuned_on QCONV_NAMED(qconv_tuned_on)
#define qconv_time_us_of QCONV_NAMED(qconv_time_us_of)
#define qconv_tensor_of QCONV_NAMED(qconv_tensor_of)
#define qconv_parameter_of QCONV_NAMED(qconv_parameter_of)
#define qconv_device_count QCONV_NAMED(qconv_device_count)
#define qconv_open QCONV_NAMED(qconv_open)
#define qconv_close QCONV_NAMED(qconv_close)
#define qconv_device_name QCONV_NAMED(qconv_device_name)
#define qconv_lookup QCONV_NAMED(qconv_lookup)
#define qconv_pack QCONV_NAMED(qconv_pack)
#define qconv_refold QCONV_NAMED(qconv_refold)
#define qconv_packed_free QCONV_NAMED(qconv_packed_free)
#define qconv_workspace_bytes QCONV_NAMED(qconv_workspace_bytes)
#define qconv_workspace_prepare QCONV_NAMED(qconv_workspace_prepare)
#define qconv_launch QCONV_NAMED(qconv_launch)
#define qconv_launch_overlapping QCONV_NAMED(qconv_launch_overlapping)
#define qconv_turn_weights QCONV_NAMED(qconv_turn_weights)
#define qconv_allocate QCONV_NAMED(qconv_allocate)
#define qconv_free QCONV_NAMED(qconv_free)
#define qconv_upload QCONV_NAMED(qconv_upload)
#define qconv_download QCONV_NAMED(qconv_download)
#define qconv_synchronize QCONV_NAMED(qconv_synchronize)
#endif

/* A shared library exports nothing else. */
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
    QCONV_BAD_ARGUMENT = 1,  /* an argument is invalid, or does not belong to this problem */
    QCONV_NO_KERNEL = 2,     /* the library has no kernel for this problem on this device */
    QCONV_NO_DEVICE = 3,     /* there is no such device, or no driver for it */
    QCONV_NO_MEMORY = 4,     /* the host or the device has too little memory */
    QCONV_LAUNCH_FAILED = 5, /* the driver or the CPU runtime failed */
    QCONV_INTERNAL = 6       /* an error of this library */
} qconv_status;

typedef enum qconv_type { QCONV_INT32 = 1, QCONV_FLOAT32 = 2, QCONV_FLOAT64 = 3 } qconv_type;

typedef enum qconv_role { QCONV_INPUT = 1, QCONV_WEIGHTS = 2, QCONV_OUTPUT = 3 } qconv_role;

typedef struct qconv_device qconv_device;
typedef struct qconv_kernel qconv_kernel; /* owned by the library; never freed */
typedef struct qconv_packed qconv_packed;

/* A CUstream (the same as a cudaStream_t), a hipStream_t, or null for the default stream, the only one of the CPU. */
typedef void* qconv_stream;

/* A scale, a zero point or a bias, under its name in the Python interface. The values are in host memory: one, or one
 * per output channel. Scales may have any type; zero points, an int32 bias and the 256 values of a table are
 * QCONV_INT32. */
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
    uint64_t shape[8]; /* outermost dimension first; the outermost of more than eight are merged */
    uint64_t bytes;
    unsigned alignment; /* required alignment of the array's address, in bytes */
} qconv_tensor;

QCONV_API int qconv_abi_version(void);

/* The calling thread's last error, or "" if there was none. */
QCONV_API const char* qconv_last_error(void);

/* The name of a status, such as "QCONV_NO_KERNEL", for logs. */
QCONV_API const char* qconv_status_text(qconv_status status);

/* The kernels of the library, in the order of their keys. */
QCONV_API size_t qconv_kernel_count(void);
QCONV_API const qconv_kernel* qconv_kernel_at(size_t index); /* null beyond the last */
QCONV_API const char* qconv_key_of(const qconv_kernel* kernel);
QCONV_API const char* qconv_target_of(const qconv_kernel* kernel); /* "sm_90a", "gfx942", "cpu" */
QCONV_API const char* qconv_tuned_on(const qconv_kernel* kernel);  /* device name; "" for an untuned default */
QCONV_API double qconv_time_us_of(const qconv_kernel* kernel);     /* as measured there, or 0 */

/* The tensors of a problem: inputs, then weights, then outputs, each in the order in which their arrays are passed.
 * Returns QCONV_BAD_ARGUMENT beyond the last. */
QCONV_API qconv_status qconv_tensor_of(const qconv_kernel* kernel, size_t index, qconv_tensor* tensor);

/* The names of a problem's parameters; null beyond the last. Sets `required` to 0 for one with a default. */
QCONV_API const char* qconv_parameter_of(const qconv_kernel* kernel, size_t index, int* required);

/* The number of devices that the driver knows. */
QCONV_API qconv_status qconv_device_count(int* count);

/* Opens a device by its index. On CUDA, uses the current context if it is the device's, otherwise the primary one. */
QCONV_API qconv_status qconv_open(int index, qconv_device** device);
QCONV_API void qconv_close(qconv_device* device); /* after everything packed on it */
QCONV_API const char* qconv_device_name(const qconv_device* device);

/* Returns the kernel for a problem: one tuned on this device if there is one, otherwise the best of those that run on
 * it. The first lookup loads it. A key's fields may have any order, and those with their default may be omitted or
 * given; the text of an expression (do=) has to be spelled as in qconv_problems.h. */
QCONV_API qconv_status qconv_lookup(qconv_device* device, const char* key, const qconv_kernel** kernel);

/* Checks the parameters, uploads those that the kernel reads, launches the kernels that fold zero points and repack
 * weights on the stream, and waits for them: do not pack while a stream is captured. The weights are not copied: this
 * call and every launch read them, so they must outlive the result. */
QCONV_API qconv_status qconv_pack(qconv_device* device, const qconv_kernel* kernel, const void* const* weights,
                                  const qconv_parameter* parameters, size_t parameter_count, qconv_stream stream,
                                  qconv_packed** packed);

/* Folds and repacks again on the stream, after new weights were written into the same arrays. Waits for nothing. */
QCONV_API qconv_status qconv_refold(qconv_packed* packed, qconv_stream stream);
QCONV_API void qconv_packed_free(qconv_packed* packed); /* after its last launch has ended */

/* The bytes of device memory that a launch needs besides the arrays, often 0. Their address is a multiple of
 * QCONV_WORKSPACE_ALIGNMENT. */
#define QCONV_WORKSPACE_ALIGNMENT 64
QCONV_API size_t qconv_workspace_bytes(const qconv_kernel* kernel);

/* Clears, on the stream, the part of a workspace in which blocks add up their sums. Once is enough: every launch leaves
 * it clear. Prepare a workspace again after anything else has written to it, or after a launch that failed. */
QCONV_API qconv_status qconv_workspace_prepare(const qconv_packed* packed, void* workspace, size_t workspace_bytes,
                                               qconv_stream stream);

/* Launches the kernels with these arrays. It allocates nothing and waits for nothing: on a GPU it returns when the
 * launches are queued, and can be captured in a graph; on the CPU it returns when they have ended. `workspace` may be
 * null where none is needed. An output must not overlap any other array, except that it may be an input that is read
 * element by element: a residual, or a term of a sum. */
QCONV_API qconv_status qconv_launch(const qconv_packed* packed, const void* const* inputs, void* const* outputs,
                                    void* workspace, size_t workspace_bytes, qconv_stream stream);

/* Launches as qconv_launch does, but a kernel that can may begin before the kernel in front of it on the stream has
 * ended, of which it then waits for all that it reads but weights and parameters (programmatic dependent launch, from
 * sm_90 on). So it must not follow a kernel of another library that writes the weights; qconv_refold may precede it. */
QCONV_API qconv_status qconv_launch_overlapping(const qconv_packed* packed, const void* const* inputs,
                                                void* const* outputs, void* workspace, size_t workspace_bytes,
                                                qconv_stream stream);

/* Transposes weights in host memory from KCRS to KRSC, the layout that kernels read (with layout=nchw, the other way
 * round). `index` is the index among the weights of the problem. */
QCONV_API qconv_status qconv_turn_weights(const qconv_kernel* kernel, size_t index, const void* given, void* turned);

/* Device memory, for programs without an allocator of their own. Copies are synchronous. */
QCONV_API qconv_status qconv_allocate(qconv_device* device, size_t bytes, void** memory);
QCONV_API void qconv_free(qconv_device* device, void* memory);
QCONV_API qconv_status qconv_upload(qconv_device* device, void* to, const void* from_host, size_t bytes);
QCONV_API qconv_status qconv_download(qconv_device* device, void* to_host, const void* from, size_t bytes);
QCONV_API qconv_status qconv_synchronize(qconv_device* device, qconv_stream stream); /* waits for the stream */

#ifdef __cplusplus
}
#endif

#endif
