// A detector that was exported as a folder: from an image to the boxes that were kept. Link libqconv_network.a.
#pragma once

#include <cstdint>
#include <cstdio>
#include <istream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "qconv_network.hpp"

struct Image {
    uint64_t height, width;
    std::vector<uint8_t> pixels;  // rows of red, green, blue
};

// Reads a PPM image of bytes, of at most 64 MB. `name` is that of a file, for errors.
inline Image read_ppm(std::istream& file, const std::string& name) {
    std::string kind;
    Image image = {};
    uint32_t height = 0, width = 0, most = 0;
    file >> kind >> width >> height >> most;
    file.get();
    const uint64_t bytes = uint64_t(height) * width * 3;
    if (!file || kind != "P6" || most != 255 || bytes > 64000000)
        throw std::runtime_error(name + " is no PPM image of bytes");
    image = {height, width, std::vector<uint8_t>(bytes)};
    file.read(reinterpret_cast<char*>(image.pixels.data()), static_cast<std::streamsize>(bytes));
    if (!file) throw std::runtime_error(name + " ends early");
    return image;
}

class Detector {
public:
    Detector(const char* folder, const char* device) : network_(folder, device) {}

    // Returns a line per box. Images of a size that the folder was not exported for are refused.
    std::vector<std::string> boxes(const Image& image) {
        const size_t program = network_.of_shapes({{1, image.height, image.width, 3}});
        Arrays& arrays = arrays_of(program);
        arrays.frame.upload(image.pixels.data());
        const void* inputs[] = {arrays.frame.address()};
        network_.run(program, inputs, arrays.outputs.data(), arrays.workspace.address());
        network_.synchronize();

        const auto ports = network_.outputs(program);
        std::vector<float> corners(ports[0].bytes / sizeof(float)), scores(ports[1].bytes / sizeof(float));
        std::vector<int64_t> kept(ports[2].bytes / sizeof(int64_t));
        arrays.made[0].download(corners.data());
        arrays.made[1].download(scores.data());
        arrays.made[2].download(kept.data());
        const uint64_t cells = ports[0].shape[1];
        std::vector<std::string> lines;
        // The first row says how many rows behind it there are: image, class, cell.
        for (int64_t row = 1; row <= kept[0]; ++row) {
            const int64_t number = kept[row * 3 + 1], cell = kept[row * 3 + 2];
            const float* const box = &corners[cell * 4];
            char line[128];
            snprintf(line, sizeof(line), "class %d, score %.2f, corners %.1f %.1f %.1f %.1f", static_cast<int>(number),
                     scores[number * cells + cell], box[0], box[1], box[2], box[3]);
            lines.emplace_back(line);
        }
        return lines;
    }

private:
    // The device's arrays of a run. It makes boxes (1, cells, 4), scores (1, classes, cells) and the rows that are kept.
    struct Arrays {
        qconv_network_api::Memory frame, workspace;
        std::vector<qconv_network_api::Memory> made;
        std::vector<void*> outputs;
    };

    // A run allocates nothing; the arrays of each image size are made once.
    Arrays& arrays_of(size_t program) {
        const auto found = arrays_.find(program);
        if (found != arrays_.end()) return found->second;
        using qconv_network_api::Memory;
        const size_t workspace = network_.workspace_bytes(program);
        Arrays arrays = {Memory(network_, network_.inputs(program)[0].bytes), Memory(network_, workspace), {}, {}};
        for (const auto& port : network_.outputs(program)) arrays.made.emplace_back(network_, port.bytes);
        for (const Memory& memory : arrays.made) arrays.outputs.push_back(memory.address());
        return arrays_.emplace(program, std::move(arrays)).first->second;
    }

    qconv_network_api::Network network_;
    std::map<size_t, Arrays> arrays_;
};
