// Reads the arrays and parameters of one problem, runs its kernel out of a library, and writes the output.
//
// program KEY FOLDER: FOLDER has x, w and bias as plain bytes; y is written beside them. library.py makes all of it.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "qconv_kernels.h"

static void check(qconv_status status) {
    if (status == QCONV_OK) return;
    fprintf(stderr, "%s: %s\n", qconv_status_text(status), qconv_last_error());
    exit(status);
}

static std::vector<char> read(const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The bytes on the device.
static void* uploaded(qconv_device* device, const std::vector<char>& bytes) {
    void* memory;
    check(qconv_allocate(device, bytes.size(), &memory));
    check(qconv_upload(device, memory, bytes.data(), bytes.size()));
    return memory;
}

int main(int, char** arguments) {
    const std::string folder = arguments[2];
    qconv_device* device;
    const qconv_kernel* kernel;
    check(qconv_open(0, &device));
    check(qconv_lookup(device, arguments[1], &kernel));

    const std::vector<char> bias = read(folder + "/bias");
    const double x_scale = 0.02, w_scale = 0.005, y_scale = 0.1;
    const qconv_parameter parameters[] = {
        {"x_scale", QCONV_FLOAT64, 1, &x_scale},
        {"w_scale", QCONV_FLOAT64, 1, &w_scale},
        {"y_scale", QCONV_FLOAT64, 1, &y_scale},
        {"bias", QCONV_INT32, bias.size() / 4, bias.data()},
    };
    const void* weights[] = {uploaded(device, read(folder + "/w"))};
    qconv_packed* packed;
    check(qconv_pack(device, kernel, weights, parameters, 4, nullptr, &packed));

    qconv_tensor y;
    check(qconv_tensor_of(kernel, 2, &y));
    std::vector<char> result(y.bytes);
    const void* inputs[] = {uploaded(device, read(folder + "/x"))};
    void* outputs[] = {uploaded(device, result)};
    const size_t workspace_bytes = qconv_workspace_bytes(kernel);
    void* workspace;
    check(qconv_allocate(device, workspace_bytes, &workspace));
    check(qconv_workspace_prepare(packed, workspace, workspace_bytes, nullptr));
    check(qconv_launch(packed, inputs, outputs, workspace, workspace_bytes, nullptr));
    check(qconv_synchronize(device, nullptr));
    check(qconv_download(device, result.data(), outputs[0], result.size()));
    std::ofstream(folder + "/y", std::ios::binary).write(result.data(), result.size());

    qconv_packed_free(packed);
    qconv_free(device, workspace);
    qconv_free(device, const_cast<void*>(weights[0]));
    qconv_free(device, const_cast<void*>(inputs[0]));
    qconv_free(device, outputs[0]);
    qconv_close(device);
}
