// From a frame to boxes in C++: opens the folder of a detector, reads an image (PPM, of the size that the folder was
// exported for), and prints the boxes that were kept. frame_to_boxes.py exports the folder, builds this, and compares.
//
//     frame_to_boxes FOLDER IMAGE.ppm [cuda:0|hip:0|cpu]
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "qconv_network.hpp"

using namespace qconv_network_api;

struct Image {
    uint64_t height, width;
    std::vector<uint8_t> pixels;  // rows of red, green, blue
};

Image read_ppm(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string kind;
    Image image = {};
    unsigned most = 0;
    file >> kind >> image.width >> image.height >> most;
    file.get();
    image.pixels.resize(image.height * image.width * 3);
    file.read(reinterpret_cast<char*>(image.pixels.data()), static_cast<std::streamsize>(image.pixels.size()));
    if (!file || kind != "P6" || most != 255) throw std::runtime_error(path + " is no PPM image of bytes");
    return image;
}

int run(const char* folder, const char* path, const char* device) {
    const Network network(folder, device);
    const Image image = read_ppm(path);
    const size_t program = network.of_shapes({{1, image.height, image.width, 3}});

    Memory frame(network, image.pixels.size()), workspace(network, network.workspace_bytes(program));
    std::vector<Memory> made;  // boxes (1, cells, 4), scores (1, classes, cells), and which of them are kept
    std::vector<void*> outputs;
    const auto ports = network.outputs(program);
    for (const auto& port : ports) made.emplace_back(network, port.bytes);
    for (const Memory& memory : made) outputs.push_back(memory.address());
    frame.upload(image.pixels.data());
    const void* inputs[] = {frame.address()};
    network.run(program, inputs, outputs.data(), workspace.address());
    network.synchronize();

    std::vector<float> boxes(ports[0].bytes / sizeof(float)), scores(ports[1].bytes / sizeof(float));
    std::vector<int64_t> kept(ports[2].bytes / sizeof(int64_t));
    made[0].download(boxes.data());
    made[1].download(scores.data());
    made[2].download(kept.data());
    const uint64_t cells = ports[0].shape[1];
    // The first row says how many rows behind it there are: image, class, cell.
    for (int64_t row = 1; row <= kept[0]; ++row) {
        const int64_t number = kept[row * 3 + 1], cell = kept[row * 3 + 2];
        const float* const box = &boxes[cell * 4];
        printf("class %d, score %.2f, corners %.1f %.1f %.1f %.1f\n", static_cast<int>(number),
               scores[number * cells + cell], box[0], box[1], box[2], box[3]);
    }
    return 0;
}

int main(int count, char** words) {
    if (count < 3) {
        fprintf(stderr, "usage: frame_to_boxes FOLDER IMAGE.ppm [cuda:0|hip:0|cpu]\n");
        return 2;
    }
    try {
        return run(words[1], words[2], count > 3 ? words[3] : nullptr);
    } catch (const std::exception& error) {
        fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
