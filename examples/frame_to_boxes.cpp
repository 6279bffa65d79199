// From a frame to boxes in C++: opens the folder of a detector, reads an image (PPM, of the size that the folder was
// exported for), and prints the boxes that were kept. frame_to_boxes.py exports the folder, builds this, and compares.
//
//     frame_to_boxes FOLDER IMAGE.ppm [cuda:0|hip:0|cpu]
#include <fstream>

#include "boxes.hpp"

int main(int count, char** words) {
    if (count < 3) {
        fprintf(stderr, "usage: frame_to_boxes FOLDER IMAGE.ppm [cuda:0|hip:0|cpu]\n");
        return 2;
    }
    try {
        Detector detector(words[1], count > 3 ? words[3] : nullptr);
        std::ifstream file(words[2], std::ios::binary);
        for (const std::string& line : detector.boxes(read_ppm(file, words[2]))) puts(line.c_str());
        return 0;
    } catch (const std::exception& error) {
        fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
