// The log of the driver stubs.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

std::map<std::string, size_t>& argument_bytes = *new std::map<std::string, size_t>;
struct Function {
    std::string name;
    size_t bytes;  // of its only parameter; 0 where the binary was not read
};
std::vector<Function>& functions = *new std::vector<Function>;
// Null without QCONV_STUB_LOG. The stub then takes no memory in a launch, so that a launcher's can be counted.
FILE* log_file() {
    static const char* const name = getenv("QCONV_STUB_LOG");
    static FILE* file = name == nullptr ? nullptr : fopen(name, "a");
    return file;
}

template <typename... Values>
void say(const char* format, Values... values) {
    if (log_file() == nullptr) return;
    flockfile(log_file());  // threads may launch at one time, and each line is whole
    fprintf(log_file(), format, values...);
    fputc('\n', log_file());
    fflush(log_file());
    funlockfile(log_file());
}

std::string hexadecimal(const void* bytes, size_t count) {
    std::string text;
    char two[3];
    for (size_t i = 0; i < count; ++i) {
        snprintf(two, sizeof two, "%02x", static_cast<const unsigned char*>(bytes)[i]);
        text += two;
    }
    return text;
}

// Arguments are an array of addresses, of which a kernel with one struct has one, or packed: a marker and the address, a
// marker and the address of the size, the end.
void say_launch(size_t function, const unsigned (&numbers)[5], void* stream, void** parameters, void** packed,
                const char* how = "alone") {
    if (log_file() == nullptr) return;
    const auto& [name, known] = functions[function - 1];
    const bool is_packed = parameters == nullptr;
    const size_t bytes = is_packed ? *static_cast<size_t*>(packed[3]) : known > 0 ? known : argument_bytes[name];
    say("launch %s %u %u %u %u %u %p %s %s", name.c_str(), numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
        stream, how, hexadecimal(is_packed ? packed[1] : parameters[0], bytes).c_str());
}

}  // namespace

extern "C" void stub_arguments(const char* kernel, size_t bytes) { argument_bytes[kernel] = bytes; }
