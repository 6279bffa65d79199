// The host's time of qconv_launch with other arrays at each call, beside the driver's own launches with arguments that
// are made ahead and the driver's encoding of the call's tensor maps. Prints a line of JSON per kernel of the self-test.
// bench/library.py builds and runs it.
#define QCONV_IMPLEMENTATION
#include "qconv_embedded.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "counted.h"
#include "self_test_arrays.h"

namespace {

// Few enough that no queue fills.
constexpr int CALLS = 50, ROUNDS = 100;

struct Arrays {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    void* workspace;
};

// A kernel that is packed, with two sets of arrays. Nothing is freed: the process ends soon.
struct Prepared {
    qconv_device* device;
    const qconv_kernel* kernel;
    qconv_packed* packed = nullptr;
    size_t workspace_bytes;
    Arrays sets[2];

    Prepared(qconv_device* device, const SelfTestCase& one) : device(device) {
        check(qconv_lookup(device, one.key, &kernel));
        workspace_bytes = qconv_workspace_bytes(kernel);
        std::vector<const void*> weights;
        qconv_tensor tensor;
        for (size_t i = 0; qconv_tensor_of(kernel, i, &tensor) == QCONV_OK; ++i) {
            if (tensor.role == QCONV_WEIGHTS) weights.push_back(uploaded(device, filled(one.arrays[i], tensor.bytes)));
            for (Arrays& arrays : sets) {
                if (tensor.role == QCONV_INPUT)
                    arrays.inputs.push_back(uploaded(device, filled(one.arrays[i], tensor.bytes)));
                if (tensor.role == QCONV_OUTPUT)
                    arrays.outputs.push_back(uploaded(device, std::vector<char>(tensor.bytes)));
            }
        }
        check(qconv_pack(device, kernel, weights.data(), one.parameters, one.parameter_count, nullptr, &packed));
        for (Arrays& arrays : sets) {
            arrays.workspace = uploaded(device, std::vector<char>(workspace_bytes));
            check(qconv_workspace_prepare(packed, arrays.workspace, workspace_bytes, nullptr));
        }
    }

    void launch(int number) const {
        const Arrays& arrays = sets[number % 2];
        check(qconv_launch(packed, arrays.inputs.data(), arrays.outputs.data(), arrays.workspace, workspace_bytes, nullptr));
    }

    qconv::Call call(int number) const {
        const Arrays& arrays = sets[number % 2];
        return {arrays.inputs.data(), arrays.outputs.data(), static_cast<char*>(arrays.workspace)};
    }

    // The tensor maps of a call, as the driver encodes them.
    int encode(int number) const {
        int maps = 0;
        alignas(64) unsigned char encoded[128];
        for (const qconv::PackedKernel& one : packed->kernels)
            for (const qconv::Slot& slot : one.slots) {
                if (slot.map == nullptr) continue;
                const auto address = reinterpret_cast<uintptr_t>(call(number).address_of(slot.origin));
                device->device.encode(*slot.map, address, encoded);
                ++maps;
            }
        return maps;
    }
};

// A launch with all that the driver is given made ahead.
struct Bare {
    CUfunction function;
    CUlaunchConfig config;
    qconv::Arguments arguments;

    void launch() {
        void* parameters[] = {arguments.bytes};
        const CUresult result = qconv::driver().launch_extended(&config, function, parameters, nullptr);
        qconv::driver().check(result, QCONV_LAUNCH_FAILED, "cuLaunchKernelEx");
    }
};

std::vector<Bare> bare_launches(const Prepared& prepared) {
    std::vector<Bare> made;
    for (const qconv::PackedKernel& one : prepared.packed->kernels) {
        qconv::Arguments arguments;
        arguments.put(0, one.constants.data(), one.constants.size());
        for (const qconv::Slot& slot : one.slots)
            put(prepared.device->device, arguments, slot, prepared.call(0).address_of(slot.origin));
        for (size_t i = 0; i < one.kernel->launches.count; ++i) {
            const qconv::Launch& launch = one.kernel->launches[i];
            if (launch.once) continue;
            CUlaunchConfig config = {};
            config.gridDimX = launch.grid[0], config.gridDimY = launch.grid[1], config.gridDimZ = launch.grid[2];
            config.blockDimX = launch.threads, config.blockDimY = config.blockDimZ = 1;
            config.sharedMemBytes = launch.smem_bytes;
            made.push_back({(*one.functions)[i].handle, config, arguments});
        }
    }
    return made;
}

template <typename Work>
double per_call_ns(const Prepared& prepared, Work work) {
    check(qconv_synchronize(prepared.device, nullptr));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < CALLS; ++i) work(i);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / CALLS;
}

double median(std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

void measure(qconv_device* device, const SelfTestCase& given) {
    const Prepared one(device, given);
    for (int warm = 0; warm < 4; ++warm) one.launch(warm);
    check(qconv_synchronize(device, nullptr));
    counted([&] {
        for (int call = 0; call < CALLS; ++call) one.launch(call);
    });
    std::vector<Bare> bare = bare_launches(one);
    // In turns: the machine's own speed changes with time.
    std::vector<double> driver, ours, encoding;
    for (int round = 0; round < ROUNDS; ++round) {
        driver.push_back(per_call_ns(one, [&](int) {
            for (Bare& each : bare) each.launch();
        }));
        ours.push_back(per_call_ns(one, [&](int number) { one.launch(number); }));
        encoding.push_back(per_call_ns(one, [&](int number) { one.encode(number); }));
    }
    check(qconv_synchronize(device, nullptr));
    printf("{\"key\": \"%s\", \"calls\": %d, \"launches\": %zu, \"maps\": %d, \"launch_ns\": %.0f, \"driver_ns\": %.0f, "
           "\"encoding_ns\": %.0f}\n",
           given.key, CALLS, bare.size(), one.encode(0), median(ours), median(driver), median(encoding));
}

}  // namespace

int main() {
    qconv_device* device = nullptr;
    check(qconv_open(0, &device));
    try {
        // A program that launches has a context, and so has what the driver alone launches here.
        device->device.within([&] {
            for (size_t i = 0; i < self_test_case_count; ++i) measure(device, self_test_cases[i]);
        });
    } catch (const qconv::Failure& failure) {
        fprintf(stderr, "%s\n", failure.text.c_str());
        return 1;
    }
    return 0;
}
