/* The C interface of a network that qconv-tune has exported as a folder.
 *
 * Open a folder on a device, find the program for the shapes of the inputs, and run it:
 *
 *     qconv_network* network;
 *     size_t program;
 *     qconv_network_open("folder", "cuda:0", &network);
 *     qconv_network_find_batch(network, 8, &program);
 *     void* workspace = ...  qconv_network_workspace_bytes(network, program) bytes of device memory
 *     qconv_network_run(network, program, stream, inputs, outputs, workspace);
 *
 * A run launches kernels on the stream and returns: it allocates nothing and waits for nothing. It can be captured in
 * a graph of the caller's; qconv_graph_create makes one. On the CPU, a run returns when it is done.
 *
 * Every function that can fail returns a qconv_network_status. qconv_network_last_error() then returns the calling
 * thread's error, a sentence with a remedy.
 *
 * Arrays are contiguous, in the order of axes of the model, and lie where the kernels run: in memory of the GPU, or for
 * the CPU in this process. Their addresses are multiples of QCONV_NETWORK_ALIGNMENT, as those of every allocator of
 * device memory are. No two arrays of a run may overlap.
 *
 * Threads: a network does not change once it is open. Any number of threads may run it at the same time, each run with
 * a workspace and arrays of its own. A graph belongs to one thread at a time.
 */
#ifndef QCONV_NETWORK_H
#define QCONV_NETWORK_H

#include <stddef.h>
#include <stdint.h>

/* A shared library exports nothing else. */
#if defined(__GNUC__)
#define QCONV_NETWORK_API __attribute__((visibility("default")))
#else
#define QCONV_NETWORK_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Compare with qconv_network_abi_version(). Functions and enumerators may be added in the same version. */
#define QCONV_NETWORK_ABI_VERSION 1
#define QCONV_NETWORK_ALIGNMENT 16

typedef enum qconv_network_status {
    QCONV_NETWORK_OK = 0,
    QCONV_NETWORK_BAD_ARGUMENT = 1,  /* an argument is invalid */
    QCONV_NETWORK_BAD_FOLDER = 2,    /* the folder is damaged, incomplete, or of another version */
    QCONV_NETWORK_NO_TARGET = 3,     /* the folder has no kernels for this device */
    QCONV_NETWORK_NO_DEVICE = 4,     /* there is no such device, or no driver for it */
    QCONV_NETWORK_NO_MEMORY = 5,     /* the host or the device has too little memory */
    QCONV_NETWORK_LAUNCH_FAILED = 6, /* the driver or the CPU runtime failed */
    QCONV_NETWORK_INTERNAL = 7       /* an error of this library */
} qconv_network_status;

typedef struct qconv_network qconv_network;
typedef struct qconv_graph qconv_graph;

/* A CUstream (the same as a cudaStream_t), a hipStream_t, or null for the default stream, the only one of the CPU. */
typedef void* qconv_network_stream;

typedef struct qconv_network_tensor {
    const char* name;  /* as in the model; valid as long as the network is open */
    const char* type;  /* "int8", "uint8", "int32", "int64", "bool", "float16", "float32", ... */
    unsigned rank;
    uint64_t shape[8];
    uint64_t bytes;
    int is_counted; /* rows: the first one begins with the number of those behind it that count */
} qconv_network_tensor;

typedef struct qconv_network_step {
    const char* layer;  /* the name of the model's layer, or of the last one of several that are one kernel */
    const char* kernel; /* the function that is launched; "fill", "copy" or "gather"; the file of a call */
} qconv_network_step;

/* A tensor of the model that a step completes. */
typedef struct qconv_network_made {
    const char* tensor;
    int is_channels_last; /* in memory */
    size_t step;
    const void* address;
    uint64_t bytes;
} qconv_network_made;

QCONV_NETWORK_API int qconv_network_abi_version(void);
QCONV_NETWORK_API const char* qconv_network_last_error(void); /* of the calling thread; "" if there was none */
QCONV_NETWORK_API const char* qconv_network_status_text(qconv_network_status status);

/* Opens a folder on "cuda:N", "hip:N" or "cpu"; null: on the first GPU that it has kernels for, or else on the CPU.
 * Checks every byte that it reads, copies the weights to the device, and packs them there. */
QCONV_NETWORK_API qconv_network_status qconv_network_open(const char* folder, const char* device,
                                                          qconv_network** network);
QCONV_NETWORK_API void qconv_network_close(qconv_network* network); /* after the last run has ended */

QCONV_NETWORK_API const char* qconv_network_target(const qconv_network* network); /* "sm_90a", "gfx942", "cpu" */
QCONV_NETWORK_API const char* qconv_network_device(const qconv_network* network); /* the device's name */

/* A program serves inputs of certain shapes. All programs of a network have the same inputs and outputs, by number. */
QCONV_NETWORK_API size_t qconv_network_program_count(const qconv_network* network);
QCONV_NETWORK_API size_t qconv_network_input_count(const qconv_network* network);
QCONV_NETWORK_API size_t qconv_network_output_count(const qconv_network* network);
QCONV_NETWORK_API qconv_network_status qconv_network_input(const qconv_network* network, size_t program, size_t index,
                                                           qconv_network_tensor* tensor);
QCONV_NETWORK_API qconv_network_status qconv_network_output(const qconv_network* network, size_t program, size_t index,
                                                            qconv_network_tensor* tensor);

/* Finds the program for inputs of these shapes: for each input, as many extents as it has axes. */
QCONV_NETWORK_API qconv_network_status qconv_network_find(const qconv_network* network, const uint64_t* const* shapes,
                                                          size_t* program);
/* Finds the first program whose inputs have this first extent. */
QCONV_NETWORK_API qconv_network_status qconv_network_find_batch(const qconv_network* network, uint64_t batch,
                                                                size_t* program);

QCONV_NETWORK_API uint64_t qconv_network_workspace_bytes(const qconv_network* network, size_t program);

/* Runs a program. `workspace` is of qconv_network_workspace_bytes() bytes, and may be null where these are 0. */
QCONV_NETWORK_API qconv_network_status qconv_network_run(const qconv_network* network, size_t program,
                                                         qconv_network_stream stream, const void* const* inputs,
                                                         void* const* outputs, void* workspace);

/* The steps of a program, in order, and a run of those from `first` to before `last`, to look at or time a part. */
QCONV_NETWORK_API size_t qconv_network_step_count(const qconv_network* network, size_t program);
QCONV_NETWORK_API qconv_network_status qconv_network_step_of(const qconv_network* network, size_t program, size_t index,
                                                             qconv_network_step* step);
QCONV_NETWORK_API qconv_network_status qconv_network_run_steps(const qconv_network* network, size_t program,
                                                               size_t first, size_t last, qconv_network_stream stream,
                                                               const void* const* inputs, void* const* outputs,
                                                               void* workspace);

/* Layers that no kernel computes, in a folder that qconv-tune build has written for a model with some: each is a file of
 * the folder, a model of ONNX, which a function of the caller's computes. It is called by the thread of a run, between
 * launches on `stream`, with addresses on the network's device in the order of that model's inputs and outputs; it
 * returns 0, or else the run fails. Give it before the first run. Without it, such a program is refused. */
typedef int (*qconv_network_answer)(void* context, const char* file, qconv_network_stream stream,
                                    const void* const* inputs, void* const* outputs);
QCONV_NETWORK_API qconv_network_status qconv_network_set_answer(qconv_network* network, qconv_network_answer function,
                                                                void* context);
QCONV_NETWORK_API size_t qconv_network_call_count(const qconv_network* network, size_t program);
QCONV_NETWORK_API qconv_network_status qconv_network_call_of(const qconv_network* network, size_t program, size_t index,
                                                             const char** file);

/* The tensors that the steps of a program complete, in order, and where they lie until a later step takes their place:
 * in `workspace`, or in one of `outputs`. */
QCONV_NETWORK_API size_t qconv_network_made_count(const qconv_network* network, size_t program);
QCONV_NETWORK_API qconv_network_status qconv_network_made_of(const qconv_network* network, size_t program, size_t index,
                                                             void* const* outputs, const void* workspace,
                                                             qconv_network_made* made);

/* A run as one graph, whose launch takes the host a fraction of the time. An update gives it other arrays; it keeps
 * the graph where the driver can, and otherwise makes it anew. On the CPU, a graph is a run. */
QCONV_NETWORK_API qconv_network_status qconv_graph_create(const qconv_network* network, size_t program,
                                                          const void* const* inputs, void* const* outputs,
                                                          void* workspace, qconv_graph** graph);
QCONV_NETWORK_API qconv_network_status qconv_graph_update(qconv_graph* graph, const void* const* inputs,
                                                          void* const* outputs, void* workspace);
QCONV_NETWORK_API qconv_network_status qconv_graph_launch(qconv_graph* graph, qconv_network_stream stream);
QCONV_NETWORK_API void qconv_graph_free(qconv_graph* graph); /* after its last launch has ended */

/* Memory of the network's device, for programs without an allocator of their own. Copies are synchronous. */
QCONV_NETWORK_API qconv_network_status qconv_network_allocate(const qconv_network* network, uint64_t bytes,
                                                              void** memory);
QCONV_NETWORK_API void qconv_network_free(const qconv_network* network, void* memory);
QCONV_NETWORK_API qconv_network_status qconv_network_upload(const qconv_network* network, void* to,
                                                            const void* from_host, uint64_t bytes);
QCONV_NETWORK_API qconv_network_status qconv_network_download(const qconv_network* network, void* to_host,
                                                              const void* from, uint64_t bytes);
QCONV_NETWORK_API qconv_network_status qconv_network_synchronize(const qconv_network* network,
                                                                 qconv_network_stream stream);

#ifdef __cplusplus
}
#endif

#endif
