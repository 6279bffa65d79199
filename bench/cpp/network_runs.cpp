// Opens a shipped network again, runs it many times, with other arrays in each run, and prints as JSON: the time to open
// where the driver's context is there, and to copy as many bytes as the weights; of a run's call; the latencies of its
// graph; by how much memory grew. bench/shipped.py builds and runs it.
//
//     network_runs FOLDER DEVICE BATCH RUNS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "counted.h"
#include "network_arrays.h"

using namespace qconv_network_api;

namespace {

constexpr int CALLS = 20, ROUNDS = 30;

double now_us() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(now).count();
}

// The least time of five, in milliseconds.
template <typename Work>
double least_ms(Work work) {
    double least = 1e30;
    for (int i = 0; i < 5; ++i) {
        const double begin = now_us();
        work();
        least = std::min(least, (now_us() - begin) / 1e3);
    }
    return least;
}

double at(const std::vector<double>& sorted, double share) {
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int main(int count, char** words) {
    if (count != 5) return 2;
    const Network network(words[1], words[2]);
    const double reopen_ms = least_ms([&] { const Network again(words[1], words[2]); });
    const std::vector<char> weights(std::filesystem::file_size(std::string(words[1]) + "/weights.bin"), 1);
    Memory copied(network, weights.size());
    const double copy_ms = least_ms([&] { copied.upload(weights.data()); });
    const size_t program = network.of_batch(strtoull(words[3], nullptr, 10));
    const int runs = atoi(words[4]);
    std::vector<Arrays> arrays;
    for (uint64_t i = 0; i < 4; ++i) arrays.emplace_back(network, program, 1 + 100 * i);
    const auto run = [&](int number) {
        const Arrays& one = arrays[number % 4];
        network.run(program, one.inputs.data(), one.outputs.data(), one.workspace);
    };
    for (int i = 0; i < 8; ++i) run(i);
    network.synchronize();
    counted([&] {
        for (int i = 0; i < CALLS; ++i) run(i);
    });
    network.synchronize();

    std::vector<double> calls;
    for (int round = 0; round < ROUNDS; ++round) {
        const double begin = now_us();
        run(round);
        calls.push_back(now_us() - begin);
        network.synchronize();
    }
    std::sort(calls.begin(), calls.end());

    Graph graph(network, program, arrays[0].inputs.data(), arrays[0].outputs.data(), arrays[0].workspace);
    graph.launch();
    network.synchronize();
    counted([&] {
        for (int i = 0; i < CALLS; ++i) graph.launch();
    });
    network.synchronize();
    std::vector<double> latencies(runs);
    const long resident = resident_bytes(), free = device_free_bytes();
    for (double& latency : latencies) {
        const double begin = now_us();
        graph.launch();
        network.synchronize();
        latency = now_us() - begin;
    }
    const long grown = resident_bytes() - resident, taken = free - device_free_bytes();
    std::sort(latencies.begin(), latencies.end());
    printf("{\"reopen_ms\": %.3f, \"weights_copy_ms\": %.3f, \"calls\": %d, \"run_call_us\": %.3f, \"runs\": %d, \"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, "
           "\"grown_bytes\": %ld, \"device_grown_bytes\": %ld}\n",
           reopen_ms, copy_ms, CALLS, at(calls, 0.5), runs, at(latencies, 0.5), at(latencies, 0.99), at(latencies, 0.999), grown, taken);
    return 0;
}
