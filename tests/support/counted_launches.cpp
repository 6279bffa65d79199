// Launches every kernel of a library with new arrays at each call, for tests/instances/library/test_qconv_packing.py:
//
//     counted_launches allocations    counts what a launch takes from the heap of this process and asks of a stub driver
//     counted_launches threads        launches from four threads, which share the packed weights
//
// Prints a line per kernel: the count, or the number of outputs that differ from the first; and the key.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "self_test_arrays.h"

namespace {

std::atomic<long> taken{0};
std::atomic<bool> counts{false};

void* noted(void* memory) {
    if (counts) ++taken;
    return memory;
}

}  // namespace

#ifdef COUNTS_ALLOCATIONS
// The C library's own functions, under the names by which they can be replaced.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void* malloc(size_t bytes) { return noted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return noted(__libc_calloc(count, bytes)); }
void* realloc(void* memory, size_t bytes) { return noted(__libc_realloc(memory, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return noted(__libc_memalign(alignment, bytes)); }
void* memalign(size_t alignment, size_t bytes) { return noted(__libc_memalign(alignment, bytes)); }
}
#endif

namespace {

// Counts what the stub of a driver was asked to allocate, and to wait for.
long driver_calls() {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    long calls = 0;
    for (const char* name : {"qconv_stub_allocations", "qconv_stub_waits"})
        if (driver != nullptr) calls += reinterpret_cast<int (*)()>(dlsym(driver, name))();
    return calls;
}

// A kernel that is packed, with the arrays of the self-test. Nothing is freed: the process ends soon.
struct Prepared {
    qconv_device* device;
    const qconv_kernel* kernel;
    qconv_packed* packed = nullptr;
    std::vector<qconv_tensor> outputs;
    std::vector<const void*> inputs, weights;

    Prepared(qconv_device* device, const SelfTestCase& one) : device(device) {
        check(qconv_lookup(device, one.key, &kernel));
        qconv_tensor tensor;
        for (size_t i = 0; qconv_tensor_of(kernel, i, &tensor) == QCONV_OK; ++i) {
            if (tensor.role == QCONV_OUTPUT) outputs.push_back(tensor);
            else (tensor.role == QCONV_INPUT ? inputs : weights).push_back(
                uploaded(device, filled(one.arrays[i], tensor.bytes)));
        }
        check(qconv_pack(device, kernel, weights.data(), one.parameters, one.parameter_count, nullptr, &packed));
    }

    std::vector<void*> new_outputs() const {
        std::vector<void*> arrays;
        for (const qconv_tensor& tensor : outputs) arrays.push_back(uploaded(device, std::vector<char>(tensor.bytes, 1)));
        return arrays;
    }
    void* new_workspace() const {
        const size_t bytes = qconv_workspace_bytes(kernel);
        void* const made = uploaded(device, std::vector<char>(bytes, 0x33));
        check(qconv_workspace_prepare(packed, made, bytes, nullptr));
        return made;
    }
    void launch(const std::vector<void*>& arrays, void* workspace) const {
        check(qconv_launch(packed, inputs.data(), arrays.data(), workspace, qconv_workspace_bytes(kernel), nullptr));
    }
    bool are_equal(const std::vector<void*>& one, const std::vector<void*>& other) const {
        for (size_t i = 0; i < outputs.size(); ++i)
            if (memcmp(one[i], other[i], outputs[i].bytes) != 0) return false;
        return true;
    }
};

long allocations(const Prepared& one) {
    std::vector<std::vector<void*>> arrays;
    for (int i = 0; i < 5; ++i) arrays.push_back(one.new_outputs());
    void* const workspace = one.new_workspace();
    one.launch(arrays[0], workspace);  // the CPU's runtime then has its stacks
    const long before = driver_calls();
    taken = 0;
    counts = true;
    for (const std::vector<void*>& each : arrays) one.launch(each, workspace);
    counts = false;
    for (const std::vector<void*>& each : arrays)
        if (!one.are_equal(arrays[0], each)) return -1;
    return taken + driver_calls() - before;
}

long differences(const Prepared& one) {
    const std::vector<void*> first = one.new_outputs();
    one.launch(first, one.new_workspace());
    std::atomic<long> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            void* const workspace = one.new_workspace();
            for (int launch = 0; launch < 3; ++launch) {
                const std::vector<void*> arrays = one.new_outputs();
                one.launch(arrays, workspace);
                if (!one.are_equal(first, arrays)) ++wrong;
            }
        });
    for (std::thread& thread : threads) thread.join();
    return wrong;
}

}  // namespace

int main(int, char** words) {
    qconv_device* device = nullptr;
    check(qconv_open(0, &device));
    for (size_t i = 0; i < self_test_case_count; ++i) {
        const Prepared one(device, self_test_cases[i]);
        const bool are_counted = strcmp(words[1], "allocations") == 0;
        printf("%ld %s\n", are_counted ? allocations(one) : differences(one), self_test_cases[i].key);
    }
}
