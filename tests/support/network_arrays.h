// The arrays of a run of a shipped network: inputs drawn from a seed, outputs, and a workspace.
#pragma once

#include <cstdint>
#include <vector>

#include "drawn.h"
#include "qconv_network.hpp"

struct Arrays {
    std::vector<qconv_network_api::Memory> held;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    void* workspace;

    Arrays(const qconv_network_api::Network& network, size_t program, uint64_t seed) {
        for (const auto& tensor : network.inputs(program)) {
            held.emplace_back(network, tensor.bytes);
            held.back().upload(drawn::array(tensor, seed++).data());
            inputs.push_back(held.back().address());
        }
        for (const auto& tensor : network.outputs(program)) {
            held.emplace_back(network, tensor.bytes);
            held.back().upload(std::vector<char>(tensor.bytes, 0x55).data());
            outputs.push_back(held.back().address());
        }
        held.emplace_back(network, network.workspace_bytes(program));
        workspace = held.back().address();
    }

    std::vector<char> made(size_t at) const {
        const qconv_network_api::Memory& memory = held[inputs.size() + at];
        std::vector<char> bytes(memory.bytes());
        memory.download(bytes.data());
        return bytes;
    }
};
