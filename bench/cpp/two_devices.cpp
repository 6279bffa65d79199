// Opens a shipped network on two devices and runs it on each from a thread of its own: what a run takes while the other
// device waits, and while both run, and whether the outputs have the same bits. Prints them as JSON. bench/two_gpus.py
// builds and runs it.
//
//     two_devices FOLDER BATCH RUNS DEVICE DEVICE
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "network_arrays.h"

using namespace qconv_network_api;

namespace {

constexpr int ROUNDS = 21;

// A network on its device, with a graph of one run.
class There {
  public:
    There(const char* folder, const char* device, uint64_t batch)
        : network_(folder, device), program_(network_.of_batch(batch)), arrays_(network_, program_, 1),
          graph_(network_, program_, arrays_.inputs.data(), arrays_.outputs.data(), arrays_.workspace) {}

    // The median over the rounds of a run's time, in microseconds.
    double run_us(int runs) {
        std::vector<double> rounds(ROUNDS);
        for (double& round : rounds) {
            const auto begin = std::chrono::steady_clock::now();
            for (int i = 0; i < runs; ++i) graph_.launch();
            network_.synchronize();
            round = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / runs;
        }
        std::sort(rounds.begin(), rounds.end());
        return rounds[ROUNDS / 2];
    }

    std::vector<std::vector<char>> outputs() const {
        std::vector<std::vector<char>> made;
        for (size_t i = 0; i < arrays_.outputs.size(); ++i) made.push_back(arrays_.made(i));
        return made;
    }

  private:
    Network network_;
    size_t program_;
    Arrays arrays_;
    Graph graph_;
};

}  // namespace

int main(int count, char** words) {
    if (count != 6) return 2;
    const uint64_t batch = strtoull(words[2], nullptr, 10);
    const int runs = atoi(words[3]);
    There one(words[1], words[4], batch), other(words[1], words[5], batch);
    const double alone[] = {one.run_us(runs), other.run_us(runs)};
    const auto first = one.outputs();
    double together[2] = {};
    std::thread beside([&] { together[1] = other.run_us(runs); });
    together[0] = one.run_us(runs);
    beside.join();
    const bool equal = one.outputs() == first && other.outputs() == first;
    printf("{\"alone_us\": [%.3f, %.3f], \"together_us\": [%.3f, %.3f], \"equal\": %s}\n", alone[0], alone[1], together[0],
           together[1], equal ? "true" : "false");
    return 0;
}
