// Checks that a run allocates nothing, that threads may run at the same time, and that a graph takes other arrays.
// Prints a word and a number for each; for test_qconv_network.py and test_qconv_engine_cuda.py.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "network_arrays.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(size_t bytes) {
    ++allocations;
    void* const memory = malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

using namespace qconv_network_api;

namespace {

bool equal(const Arrays& one, const Arrays& other) {
    for (size_t i = 0; i < one.outputs.size(); ++i)
        if (one.made(i) != other.made(i)) return false;
    return true;
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) return 2;
    const Network network(words[1], words[2]);
    const int runs = atoi(words[3]);
    Arrays one(network, 0, 1), again(network, 0, 1), other(network, 0, 77);
    const auto run = [&](const Arrays& arrays) {
        network.run(0, arrays.inputs.data(), arrays.outputs.data(), arrays.workspace);
    };
    run(one);
    run(other);
    network.synchronize();
    puts("measured");
    fflush(stdout);
    const long before = allocations;
    for (int i = 0; i < runs; ++i) run(again);
    printf("allocations %ld\n", allocations - before);
    network.synchronize();
    printf("repeated %d\n", equal(one, again));
    printf("different %d\n", !equal(one, other));

    Arrays recorded(network, 0, 1), updated(network, 0, 77);
    Graph graph(network, 0, recorded.inputs.data(), recorded.outputs.data(), recorded.workspace);
    graph.launch();
    network.synchronize();
    printf("graph %d\n", equal(one, recorded));
    graph.update(updated.inputs.data(), updated.outputs.data(), updated.workspace);
    graph.launch();
    network.synchronize();
    printf("updated %d\n", equal(other, updated));

    std::vector<Arrays> of_threads;
    for (int i = 0; i < 4; ++i) of_threads.emplace_back(network, 0, i % 2 == 0 ? 1 : 77);
    std::vector<std::thread> threads;
    for (const Arrays& arrays : of_threads)
        threads.emplace_back([&run, &arrays] {
            for (int i = 0; i < 5; ++i) run(arrays);
        });
    for (std::thread& thread : threads) thread.join();
    network.synchronize();
    int right = 0;
    for (int i = 0; i < 4; ++i) right += equal(i % 2 == 0 ? one : other, of_threads[i]);
    printf("threads %d\n", right);
    return 0;
}
