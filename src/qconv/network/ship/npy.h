// Arrays of NumPy's file format, of the types and orders that networks have.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Npy {
    std::string type;  // as in qconv_network.h: "float32"
    std::vector<uint64_t> shape;
    std::vector<char> bytes;
};

namespace npy {

inline const std::map<std::string, std::string>& descriptions() {
    static const std::map<std::string, std::string> all = {
        {"bool", "|b1"},   {"int8", "|i1"},    {"uint8", "|u1"},   {"int16", "<i2"},   {"uint16", "<u2"},  {"int32", "<i4"},
        {"uint32", "<u4"}, {"int64", "<i8"},   {"uint64", "<u8"},  {"float16", "<f2"}, {"float32", "<f4"}, {"float64", "<f8"}};
    return all;
}

inline size_t item_bytes(const std::string& description) { return static_cast<size_t>(description[2] - '0'); }

[[noreturn]] inline void refuse(const std::string& path, const std::string& why) {
    throw std::runtime_error(path + " " + why + ": write it by numpy.save, in C order");
}

inline std::string value_of(const std::string& header, const std::string& key, const std::string& path) {
    const size_t at = header.find("'" + key + "':");
    if (at == std::string::npos) refuse(path, "has no " + key);
    const size_t begin = header.find_first_not_of(' ', at + key.size() + 3);
    return begin == std::string::npos ? "" : header.substr(begin);
}

inline Npy read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + " cannot be opened: give the name of an .npy file");
    char magic[8] = {};
    file.read(magic, 8);
    if (memcmp(magic, "\x93NUMPY", 6) != 0) refuse(path, "is no .npy file");
    uint32_t length = 0;
    file.read(reinterpret_cast<char*>(&length), magic[6] == 1 ? 2 : 4);
    if (!file || length > 65536) refuse(path, "has a damaged header");
    std::string header(length, ' ');
    file.read(&header[0], length);
    if (value_of(header, "fortran_order", path).compare(0, 5, "False") != 0) refuse(path, "is in Fortran's order");
    Npy made;
    const std::string description = value_of(header, "descr", path).substr(1, 3);
    for (const auto& [type, known] : descriptions())
        if (description == known) made.type = type;
    if (made.type.empty()) refuse(path, "has elements of type " + description);
    const std::string shape = value_of(header, "shape", path);
    uint64_t count = 1;
    for (size_t at = 1; at < shape.size() && shape[at] != ')';) {
        const size_t digits = strspn(shape.c_str() + at, "0123456789");
        if (digits > 0) {
            made.shape.push_back(std::stoull(shape.substr(at, digits)));
            count *= made.shape.back();
        }
        at += digits + (digits == 0);
    }
    made.bytes.resize(count * item_bytes(description));
    file.read(made.bytes.data(), static_cast<std::streamsize>(made.bytes.size()));
    if (static_cast<size_t>(file.gcount()) != made.bytes.size()) refuse(path, "is cut off");
    return made;
}

inline void write(const std::string& path, const Npy& array) {
    const auto found = descriptions().find(array.type);
    // Types that NumPy lacks are written as their bits.
    const std::string bits = array.type.compare(0, 6, "float8") == 0 ? "|u1" : "<u2";
    const std::string description = found != descriptions().end() ? found->second : bits;
    std::string header = "{'descr': '" + description + "', 'fortran_order': False, 'shape': (";
    for (uint64_t extent : array.shape) header += std::to_string(extent) + ", ";
    header += "), }";
    header.append(63 - (header.size() + 10) % 64, ' ');
    header += '\n';
    std::ofstream file(path, std::ios::binary);
    const uint16_t length = static_cast<uint16_t>(header.size());
    file.write("\x93NUMPY\x01\x00", 8).write(reinterpret_cast<const char*>(&length), 2);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    file.write(array.bytes.data(), static_cast<std::streamsize>(array.bytes.size()));
    file.close();
    if (!file) throw std::runtime_error(path + " cannot be written: is there room, and the folder?");
}

}  // namespace npy
