// Runs one kernel once, in a process without Python, so that a sanitizer sees only the kernel. Linked with
// cpu_runtime.cpp and a sanitizer. cpu_runtime.py writes the job and reads the results.
//
// The job file, argv[1], has one fact per line, in any order except where noted; buffers are numbered from 0:
//   library FILE                 the compiled source; before its kernel
//   kernel NAME                  the entry is NAME_entry
//   grid X Y Z | threads N | cluster N | shared BYTES | warp N | workers N | seed N
//   fresh N                      see qconv_cpu_fresh_fibers
//   buffer BYTES FILE            allocated at exactly this size, so that an access past its end is detected
//   arguments BYTES              size of the arguments struct
//   pointer OFFSET BUFFER BYTES  a pointer in that struct, to byte BYTES of a buffer
//   bytes OFFSET HEX             other contents of that struct
//   output BUFFER FILE           written after the run
// Exit code 0: the kernel ran; 2: invalid job; 3: error of the runtime, with its message on stderr.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cpu_runtime.h"

namespace {

void open_library(const std::string& path) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
        throw std::runtime_error("cannot load " + path + ": " + dlerror());
}

// By name, so that one library, which takes long to compile, serves all kernels of a source.
qconv_cpu_entry_t entry_of(const std::string& kernel) {
    void* const entry = dlsym(RTLD_DEFAULT, (kernel + "_entry").c_str());
    if (entry == nullptr) throw std::runtime_error("no function " + kernel + "_entry in the source");
    return reinterpret_cast<qconv_cpu_entry_t>(entry);
}

struct Buffer {
    char* data;
    size_t bytes;
};

struct Job {
    qconv_cpu_grid launched = {nullptr, nullptr, nullptr, 0, {1, 1, 1}, 0, 1, 32, 1, 0};
    Buffer arguments = {nullptr, 0};
    std::vector<Buffer> buffers;
    std::vector<std::pair<size_t, std::string>> outputs;
};

// Aligned like GPU memory, and exactly as long as requested.
Buffer allocate(size_t bytes) {
    void* data = nullptr;
    if (posix_memalign(&data, 256, bytes) != 0) throw std::runtime_error("out of memory");
    return {static_cast<char*>(data), bytes};
}

Buffer& at(Job& job, size_t index) {
    if (index >= job.buffers.size()) throw std::runtime_error("no buffer " + std::to_string(index));
    return job.buffers[index];
}

char* argument(Job& job, size_t offset, size_t bytes) {
    if (offset > job.arguments.bytes || bytes > job.arguments.bytes - offset)
        throw std::runtime_error("argument at offset " + std::to_string(offset) + " is outside the struct");
    return job.arguments.data + offset;
}

void load(Buffer& buffer, const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file.read(buffer.data, static_cast<std::streamsize>(buffer.bytes)))
        throw std::runtime_error("cannot read " + std::to_string(buffer.bytes) + " bytes from " + path);
}

void store(const Buffer& buffer, const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    if (!file.write(buffer.data, static_cast<std::streamsize>(buffer.bytes)) || !file.flush())
        throw std::runtime_error("cannot write " + path);
}

void store_bytes(Job& job, size_t offset, const std::string& hex) {
    char* const target = argument(job, offset, hex.size() / 2);
    for (size_t index = 0; index < hex.size() / 2; ++index)
        target[index] = static_cast<char>(std::stoi(hex.substr(2 * index, 2), nullptr, 16));
}

void read_line(Job& job, const std::string& line) {
    std::istringstream words(line);
    std::string key, text;
    size_t first = 0, index = 0, bytes = 0;
    words >> key;
    if (key == "library" && words >> std::ws && std::getline(words, text)) {
        open_library(text);
    } else if (key == "kernel" && words >> text) {
        job.launched.entry = entry_of(text);
    } else if (key == "grid") {
        words >> job.launched.grid[0] >> job.launched.grid[1] >> job.launched.grid[2];
    } else if (key == "threads") {
        words >> job.launched.threads;
    } else if (key == "cluster") {
        words >> job.launched.cluster;
    } else if (key == "shared") {
        words >> job.launched.shared_bytes;
    } else if (key == "warp") {
        words >> job.launched.warp_size;
    } else if (key == "workers") {
        words >> job.launched.workers;
    } else if (key == "seed") {
        words >> job.launched.seed;
    } else if (key == "fresh") {
        words >> qconv_cpu_fresh_fibers;
    } else if (key == "buffer" && words >> bytes >> std::ws && std::getline(words, text)) {
        job.buffers.push_back(allocate(bytes));
        load(job.buffers.back(), text);
    } else if (key == "arguments" && words >> bytes) {
        job.arguments = allocate(bytes);
    } else if (key == "pointer" && words >> first >> index >> bytes) {
        char* const pointer = at(job, index).data + bytes;
        memcpy(argument(job, first, sizeof pointer), &pointer, sizeof pointer);
    } else if (key == "bytes" && words >> first >> text) {
        store_bytes(job, first, text);
    } else if (key == "output" && words >> index >> std::ws && std::getline(words, text)) {
        at(job, index);
        job.outputs.emplace_back(index, text);
    } else {
        words.setstate(std::ios::failbit);
    }
    if (!words) throw std::runtime_error("cannot read the line '" + line + "'");
}

}  // namespace

int main(int count, char** values) {
    try {
        if (count != 2) throw std::runtime_error("usage: harness JOB");
        Job job;
        std::ifstream file(values[1]);
        if (!file) throw std::runtime_error(std::string("cannot open ") + values[1]);
        for (std::string line; std::getline(file, line);) read_line(job, line);

        char message[1024] = "";
        if (job.launched.entry == nullptr) throw std::runtime_error("the job names no kernel");
        job.launched.arguments = job.arguments.data;
        if (qconv_cpu_launch(&job.launched, message, sizeof message) != 0) {
            fprintf(stderr, "%s\n", message);
            return 3;
        }
        for (const auto& [index, path] : job.outputs) store(job.buffers[index], path);
        return 0;
    } catch (const std::exception& error) {
        fprintf(stderr, "%s: %s\n", count > 1 ? values[1] : "harness", error.what());
        return 2;
    }
}
