// What a launch costs in a chain of short kernels, each of which reads what the one before it wrote: launched one
// after the other, or so that the next begins before the last has ended (programmatic dependent launch), in a stream
// or in a graph. `overlap.py` builds it, runs it and writes the report. A line of JSON for each measurement.
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call) check(call, #call, __LINE__)

static void check(cudaError_t status, const char* call, int line) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(status));
    exit(1);
}

enum Trigger { NEVER, FIRST, WAITED, LAST };
enum Wait { NONE, GRID, FLAGS };

// A time of each kernel: when its first block began, its last one had waited, its last one had written.
struct Trace {
    unsigned long long begun, waited, ended;
};

struct Arguments {
    const int* in;
    int* out;
    const int* weights;
    unsigned* flags;  // of this kernel; the one before it is at flags[-1]
    Trace* trace;     // null: none
    unsigned* placed;  // blocks on each multiprocessor, where there is a trace
    int weight_loads, clocks, products, position;
    Trigger trigger;
    Wait wait;
};

__device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Waits until every block of the kernel before has said that it has written. How often this graph has run, a kernel
// knows by its own flag, which it raises at its end.
__device__ __forceinline__ void wait_for_flags(const Arguments& args) {
    if (threadIdx.x == 0 && args.position > 0) {
        const unsigned run = *(volatile unsigned*)args.flags / gridDim.x, wanted = (run + 1) * gridDim.x;
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(args.flags - 1) : "memory");
        } while (seen < wanted);
    }
    __syncthreads();
}

__device__ __forceinline__ void raise_flag(const Arguments& args) {
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("red.release.gpu.add.u32 [%0], 1;" ::"l"(args.flags) : "memory");
}

// As many as one block of 128 threads keeps its multiprocessor busy with: two blocks there take twice as long.
__device__ __forceinline__ int multiplied(int value, int rounds) {
    int sums[8] = {value, value, value, value, value, value, value, value};
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int& sum : sums) asm volatile("mad.lo.s32 %0, %0, %1, %1;" : "+r"(sum) : "r"(value));
    }
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

// Loads that depend on each other stand for what is fetched of the weights; then come time that passes and products.
__device__ __forceinline__ void work(const Arguments& args) {
    if (args.trace && threadIdx.x == 0) {
        unsigned multiprocessor;
        asm volatile("mov.u32 %0, %smid;" : "=r"(multiprocessor));
        atomicMin(&args.trace->begun, nanoseconds());
        atomicAdd(args.placed + multiprocessor, 1);
    }
    if (args.trigger == FIRST) launch_dependents();
    int at = (blockIdx.x * 32 + threadIdx.x * 8) % 65536;
    for (int i = 0; i < args.weight_loads; ++i) at = __ldcg(args.weights + at);
    if (args.wait == GRID) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (args.wait == FLAGS) wait_for_flags(args);
    if (args.trigger == WAITED) launch_dependents();
    if (args.trace && threadIdx.x == 0) atomicMax(&args.trace->waited, nanoseconds());
    const int n = gridDim.x * blockDim.x, index = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = __ldcg(args.in + (index + blockDim.x) % n) + (at < 0);
    const long long begin = clock64();
    while (clock64() - begin < args.clocks) {}
    const int nothing = multiplied(value, args.products);  // eight equal sums
    if (args.trigger == LAST) launch_dependents();
    args.out[index] = value + 1 + nothing;
    if (args.wait == FLAGS) raise_flag(args);
    if (args.trace && threadIdx.x == 0) atomicMax(&args.trace->ended, nanoseconds());
}

__global__ void plain(const __grid_constant__ Arguments args) { work(args); }
__global__ void other(const __grid_constant__ Arguments args) { work(args); }
__global__ void __cluster_dims__(4) clustered(const __grid_constant__ Arguments args) { work(args); }
// All registers of a multiprocessor: no block of another kernel fits beside one of these.
__global__ void __launch_bounds__(384, 1) warpgroups(const __grid_constant__ Arguments args) {
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    }
    work(args);
}
__global__ void delay(long long clocks) {
    const long long begin = clock64();
    while (clock64() - begin < clocks) {}
}

using Kernel = void (*)(Arguments);

enum How { STREAM, GRAPH, BY_HAND };

struct Shape {
    const char* name;
    Kernel kernel, second;  // in turn
    int blocks, threads, smem, second_smem, weight_loads, clocks, products, carveout;
};

struct Mode {
    const char* name;
    How how;
    int every;  // launches from one to the next that may begin early; 0: none
    Trigger trigger;
    Wait wait;
    int port;  // of an edge that is made by hand
    unsigned instantiate;
};

constexpr int MOST = 200, WIDEST = 528 * 512;

struct Memory {
    int *even, *odd, *weights;
    unsigned *flags, *placed;
    Trace* traces;
};

static Memory memory;
static cudaStream_t stream;

static Arguments arguments(const Shape& shape, const Mode& mode, int position, bool traced) {
    return {position % 2 ? memory.odd : memory.even,
            position % 2 ? memory.even : memory.odd,
            memory.weights,
            memory.flags + 1 + position,
            traced ? memory.traces + position : nullptr,
            memory.placed + position * 256,
            shape.weight_loads,
            shape.clocks,
            shape.products,
            position,
            mode.trigger,
            mode.wait};
}

static bool begins_early(const Mode& mode, int position) {
    return mode.every && position > 0 && position % mode.every == 0;
}

static void launch_chain(const Shape& shape, const Mode& mode, int length, bool traced) {
    for (int i = 0; i < length; ++i) {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = shape.blocks;
        config.blockDim = shape.threads;
        config.dynamicSmemBytes = i % 2 ? shape.second_smem : shape.smem;
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = begins_early(mode, i);
        CHECK(cudaLaunchKernelEx(&config, i % 2 ? shape.second : shape.kernel, arguments(shape, mode, i, traced)));
    }
}

static cudaGraph_t graph_by_hand(const Shape& shape, const Mode& mode, int length, bool traced) {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t before = nullptr;
    for (int i = 0; i < length; ++i) {
        Arguments args = arguments(shape, mode, i, traced);
        void* pointers[] = {&args};
        cudaKernelNodeParams params = {};
        params.func = reinterpret_cast<void*>(i % 2 ? shape.second : shape.kernel);
        params.gridDim = shape.blocks;
        params.blockDim = shape.threads;
        params.sharedMemBytes = i % 2 ? shape.second_smem : shape.smem;
        params.kernelParams = pointers;
        cudaGraphNode_t node;
        CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
        cudaGraphEdgeData edge = {};
        edge.from_port = mode.port;
        edge.type = cudaGraphDependencyTypeProgrammatic;
        if (before) CHECK(cudaGraphAddDependencies(graph, &before, &node, begins_early(mode, i) ? &edge : nullptr, 1));
        before = node;
    }
    return graph;
}

// Null where the driver refuses it.
static cudaGraphExec_t executable(const Shape& shape, const Mode& mode, int length, bool traced) {
    cudaGraph_t graph;
    if (mode.how == BY_HAND) {
        graph = graph_by_hand(shape, mode, length, traced);
    } else {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        launch_chain(shape, mode, length, traced);
        CHECK(cudaStreamEndCapture(stream, &graph));
    }
    cudaGraphExec_t made;
    const bool taken = cudaGraphInstantiate(&made, graph, mode.instantiate) == cudaSuccess;
    CHECK(cudaGraphDestroy(graph));
    cudaGetLastError();
    if (taken) CHECK(cudaGraphUpload(made, stream));
    return taken ? made : nullptr;
}

static float run_us(const Shape& shape, const Mode& mode, int length, cudaGraphExec_t graph, cudaEvent_t* events) {
    if (!graph) delay<<<1, 1, 0, stream>>>(3000000);  // the chain is launched meanwhile
    CHECK(cudaEventRecord(events[0], stream));
    if (graph) {
        CHECK(cudaGraphLaunch(graph, stream));
    } else {
        launch_chain(shape, mode, length, false);
    }
    CHECK(cudaEventRecord(events[1], stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, events[0], events[1]));
    return ms * 1e3f;
}

// The median of a chain's times, and whether every launch saw all that the one before it had written.
static float chain_us(const Shape& shape, const Mode& mode, int length, int repeats, bool* right) {
    cudaEvent_t events[2];
    for (cudaEvent_t& event : events) CHECK(cudaEventCreate(&event));
    cudaGraphExec_t graph = mode.how == STREAM ? nullptr : executable(shape, mode, length, false);
    if (mode.how != STREAM && !graph) return NAN;
    std::vector<float> times;
    const int n = shape.blocks * shape.threads;
    std::vector<int> values(n);
    CHECK(cudaMemset(memory.flags, 0, (MOST + 1) * sizeof(unsigned)));
    for (int i = 0; i < repeats + 3; ++i) {
        if (i % 16 == 0) CHECK(cudaMemset(memory.even, 0, n * sizeof(int)));
        CHECK(cudaDeviceSynchronize());
        const float us = run_us(shape, mode, length, graph, events);
        if (i >= 3) times.push_back(us);
        if (i % 16 != 0) continue;
        CHECK(cudaMemcpy(values.data(), memory.even, n * sizeof(int), cudaMemcpyDeviceToHost));
        for (int value : values) *right &= value == length;
    }
    if (graph) CHECK(cudaGraphExecDestroy(graph));
    for (cudaEvent_t& event : events) CHECK(cudaEventDestroy(event));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

// Of launches in the middle of a chain, by a second graph that takes the time: nanoseconds from the end of the one
// before to its own begin, from there to when its last block had waited, and to the end; the most blocks that a
// multiprocessor had.
static std::string traced(const Shape& shape, const Mode& mode, int length) {
    if (mode.how == STREAM) return "";
    cudaGraphExec_t graph = executable(shape, mode, length, true);
    std::vector<Trace> traces(length);
    std::vector<unsigned> placed(length * 256);
    double begun = 0, waited = 0, ended = 0, most = 0;
    int counted = 0;
    CHECK(cudaMemset(memory.flags, 0, (MOST + 1) * sizeof(unsigned)));
    for (int run = 0; run < 4; ++run) {
        CHECK(cudaMemset(memory.placed, 0, MOST * 256 * sizeof(unsigned)));
        for (Trace& trace : traces) trace = {ULLONG_MAX, 0, 0};
        CHECK(cudaMemcpy(memory.traces, traces.data(), length * sizeof(Trace), cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaGraphLaunch(graph, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(traces.data(), memory.traces, length * sizeof(Trace), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(placed.data(), memory.placed, length * 1024, cudaMemcpyDeviceToHost));
        for (int i = length / 4; run > 0 && i < length; ++i, ++counted) {
            begun += double(traces[i].begun) - double(traces[i - 1].ended);
            waited += double(traces[i].waited) - double(traces[i - 1].ended);
            ended += double(traces[i].ended) - double(traces[i].waited);
            most += *std::max_element(placed.begin() + i * 256, placed.begin() + i * 256 + 256);
        }
    }
    CHECK(cudaGraphExecDestroy(graph));
    char text[200];
    snprintf(text, sizeof text, ", \"begun_ns\": %.0f, \"waited_ns\": %.0f, \"worked_ns\": %.0f, \"blocks_per_sm\": %.2f",
             begun / counted, waited / counted, ended / counted, most / counted);
    return text;
}

static void measure(const Shape& shape, const Mode& mode) {
    const bool fits = cudaFuncSetAttribute(shape.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.smem) ==
                          cudaSuccess &&
                      cudaFuncSetAttribute(shape.second, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           std::max(shape.smem, shape.second_smem)) == cudaSuccess;
    if (!fits) check(cudaErrorInvalidValue, shape.name, __LINE__);
    for (Kernel kernel : {shape.kernel, shape.second})
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, shape.carveout));
    bool right = true;
    const int repeats = mode.how == STREAM ? 11 : 41;
    const float few = chain_us(shape, mode, 40, repeats, &right), many = chain_us(shape, mode, MOST, repeats, &right);
    if (std::isnan(many)) return;
    printf("{\"shape\": \"%s\", \"mode\": \"%s\", \"blocks\": %d, \"threads\": %d, \"smem\": %d, \"weight_loads\": %d, "
           "\"clocks\": %d, \"products\": %d, \"launch_us\": %.3f, \"chain_of_40_us\": %.1f, \"right\": %s%s}\n",
           shape.name, mode.name, shape.blocks, shape.threads, shape.smem, shape.weight_loads, shape.clocks,
           shape.products, (many - few) / (MOST - 40), few, right ? "true" : "false", traced(shape, mode, 60).c_str());
    fflush(stdout);
}

int main() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&memory.even, WIDEST * sizeof(int)));
    CHECK(cudaMalloc(&memory.odd, WIDEST * sizeof(int)));
    CHECK(cudaMalloc(&memory.weights, 65536 * sizeof(int)));
    CHECK(cudaMalloc(&memory.flags, (MOST + 1) * sizeof(unsigned)));
    CHECK(cudaMalloc(&memory.placed, MOST * 256 * sizeof(unsigned)));
    CHECK(cudaMalloc(&memory.traces, MOST * sizeof(Trace)));
    std::vector<int> weights(65536);
    for (int i = 0; i < 65536; ++i) weights[i] = (i * 40503u + 4099u) % 65536;
    CHECK(cudaMemcpy(memory.weights, weights.data(), weights.size() * sizeof(int), cudaMemcpyHostToDevice));

    constexpr int KB = 1024, DEFAULT = cudaSharedmemCarveoutDefault, MAX = cudaSharedmemCarveoutMaxShared;
    const Shape shapes[] = {
        {"one block, nothing to do", plain, plain, 1, 128, 0, 0, 0, 0, 0, DEFAULT},
        {"49 blocks", plain, plain, 49, 128, 32 * KB, 32 * KB, 2, 1500, 0, DEFAULT},
        {"49 blocks of clusters", clustered, clustered, 48, 128, 32 * KB, 32 * KB, 2, 1500, 0, DEFAULT},
        {"132 blocks", plain, plain, 132, 128, 32 * KB, 32 * KB, 2, 1500, 0, DEFAULT},
        {"132 blocks of clusters", clustered, clustered, 132, 128, 32 * KB, 32 * KB, 2, 1500, 0, DEFAULT},
        {"132 blocks, no weights", plain, plain, 132, 128, 32 * KB, 32 * KB, 0, 1500, 0, DEFAULT},
        {"132 blocks, long", plain, plain, 132, 128, 32 * KB, 32 * KB, 2, 6000, 0, DEFAULT},
        {"132 blocks of 200 KB", plain, plain, 132, 256, 200 * KB, 200 * KB, 2, 1500, 0, DEFAULT},
        {"132 blocks of all registers", warpgroups, warpgroups, 132, 384, 32 * KB, 32 * KB, 2, 1500, 0, DEFAULT},
        {"98 blocks of products", plain, plain, 98, 128, 32 * KB, 32 * KB, 2, 0, 96, DEFAULT},
        {"98 blocks of products, 200 KB", plain, plain, 98, 128, 200 * KB, 200 * KB, 2, 0, 96, DEFAULT},
        {"396 blocks", plain, plain, 396, 128, 32 * KB, 32 * KB, 2, 1500, 0, DEFAULT},
        {"132 blocks, 8 and 100 KB", plain, other, 132, 128, 8 * KB, 100 * KB, 2, 1500, 0, DEFAULT},
        {"132 blocks, 8 and 100 KB, carveout", plain, other, 132, 128, 8 * KB, 100 * KB, 2, 1500, 0, MAX},
        {"132 blocks, two kernels", plain, other, 132, 128, 32 * KB, 32 * KB, 2, 1500, 0, DEFAULT},
    };
    constexpr int EARLY = cudaGraphKernelNodePortProgrammatic, ONCE_BEGUN = cudaGraphKernelNodePortLaunchCompletion;
    const Mode modes[] = {
        {"stream", STREAM, 0, NEVER, NONE, 0, 0},
        {"stream, early", STREAM, 1, FIRST, GRID, 0, 0},
        {"graph", GRAPH, 0, NEVER, NONE, 0, 0},
        {"graph, instructions only", GRAPH, 0, FIRST, GRID, 0, 0},
        {"graph, attribute only", GRAPH, 1, NEVER, NONE, 0, 0},
        {"graph, waits only", GRAPH, 1, NEVER, GRID, 0, 0},
        {"graph, triggers first", GRAPH, 1, FIRST, GRID, 0, 0},
        {"graph, triggers once it has waited", GRAPH, 1, WAITED, GRID, 0, 0},
        {"graph, triggers last", GRAPH, 1, LAST, GRID, 0, 0},
        {"graph, every second", GRAPH, 2, FIRST, GRID, 0, 0},
        {"graph, every second, last", GRAPH, 2, LAST, GRID, 0, 0},
        {"by hand, none", BY_HAND, 0, NEVER, NONE, 0, 0},
        {"by hand, programmatic", BY_HAND, 1, FIRST, GRID, EARLY, 0},
        {"by hand, launch completion", BY_HAND, 1, NEVER, GRID, ONCE_BEGUN, 0},
        {"graph, for launches by the device", GRAPH, 0, NEVER, NONE, 0, cudaGraphInstantiateFlagDeviceLaunch},
        {"the same, triggers first", GRAPH, 1, FIRST, GRID, 0, cudaGraphInstantiateFlagDeviceLaunch},
        {"graph, flags", GRAPH, 1, FIRST, FLAGS, 0, 0},
        {"graph, flags, triggers once it has waited", GRAPH, 1, WAITED, FLAGS, 0, 0},
    };
    for (const Shape& shape : shapes)
        for (const Mode& mode : modes) measure(shape, mode);
    return 0;
}
