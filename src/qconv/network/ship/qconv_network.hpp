// Wrappers of qconv_network.h for C++17: a network and a graph that close themselves, and errors as exceptions.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "qconv_network.h"

namespace qconv_network_api {

struct Error : std::runtime_error {
    explicit Error(qconv_network_status status) : std::runtime_error(qconv_network_last_error()), status(status) {}
    qconv_network_status status;
};

inline void check(qconv_network_status status) {
    if (status != QCONV_NETWORK_OK) throw Error(status);
}

class Network;

// Memory of a network's device.
class Memory {
  public:
    Memory(const Network& network, uint64_t bytes);
    Memory(Memory&& other) noexcept : network_(other.network_), address_(other.address_), bytes_(other.bytes_) {
        other.address_ = nullptr;
    }
    Memory& operator=(Memory&&) = delete;
    ~Memory() { qconv_network_free(network_, address_); }

    void* address() const { return address_; }
    uint64_t bytes() const { return bytes_; }
    void upload(const void* from) { check(qconv_network_upload(network_, address_, from, bytes_)); }
    void download(void* to) const { check(qconv_network_download(network_, to, address_, bytes_)); }

  private:
    const qconv_network* network_;
    void* address_ = nullptr;
    uint64_t bytes_;
};

class Network {
  public:
    explicit Network(const std::string& folder, const char* device = nullptr) {
        qconv_network* opened = nullptr;
        check(qconv_network_open(folder.c_str(), device, &opened));
        network_.reset(opened);
    }

    const qconv_network* get() const { return network_.get(); }
    // Gives the function for layers that no kernel computes.
    void set_answer(qconv_network_answer function, void* context = nullptr) {
        check(qconv_network_set_answer(network_.get(), function, context));
    }

    std::string target() const { return qconv_network_target(get()); }
    std::string device() const { return qconv_network_device(get()); }
    size_t programs() const { return qconv_network_program_count(get()); }

    size_t of_batch(uint64_t batch) const {
        size_t program = 0;
        check(qconv_network_find_batch(get(), batch, &program));
        return program;
    }
    size_t of_shapes(const std::vector<std::vector<uint64_t>>& shapes) const {
        const auto tensors = inputs(0);
        if (shapes.size() != tensors.size())
            throw std::invalid_argument("shapes are of " + std::to_string(shapes.size()) + " inputs, and the network has " +
                                        std::to_string(tensors.size()) + ": give one for each");
        std::vector<const uint64_t*> given;
        for (size_t i = 0; i < shapes.size(); ++i) {
            if (shapes[i].size() != tensors[i].rank)
                throw std::invalid_argument(std::string("the input ") + tensors[i].name + " has " +
                                            std::to_string(tensors[i].rank) + " axes, and a shape of " +
                                            std::to_string(shapes[i].size()) + " was given: give an extent for each");
            given.push_back(shapes[i].data());
        }
        size_t program = 0;
        check(qconv_network_find(get(), given.data(), &program));
        return program;
    }

    std::vector<qconv_network_tensor> inputs(size_t program) const {
        std::vector<qconv_network_tensor> tensors(qconv_network_input_count(get()));
        for (size_t i = 0; i < tensors.size(); ++i) check(qconv_network_input(get(), program, i, &tensors[i]));
        return tensors;
    }
    std::vector<qconv_network_tensor> outputs(size_t program) const {
        std::vector<qconv_network_tensor> tensors(qconv_network_output_count(get()));
        for (size_t i = 0; i < tensors.size(); ++i) check(qconv_network_output(get(), program, i, &tensors[i]));
        return tensors;
    }
    uint64_t workspace_bytes(size_t program) const { return qconv_network_workspace_bytes(get(), program); }

    void run(size_t program, const void* const* inputs, void* const* outputs, void* workspace,
             qconv_network_stream stream = nullptr) const {
        check(qconv_network_run(get(), program, stream, inputs, outputs, workspace));
    }
    void synchronize(qconv_network_stream stream = nullptr) const { check(qconv_network_synchronize(get(), stream)); }

  private:
    struct Close {
        void operator()(qconv_network* network) const { qconv_network_close(network); }
    };
    std::unique_ptr<qconv_network, Close> network_;
};

inline Memory::Memory(const Network& network, uint64_t bytes) : network_(network.get()), bytes_(bytes) {
    check(qconv_network_allocate(network_, bytes, &address_));
}

class Graph {
  public:
    Graph(const Network& network, size_t program, const void* const* inputs, void* const* outputs, void* workspace) {
        qconv_graph* made = nullptr;
        check(qconv_graph_create(network.get(), program, inputs, outputs, workspace, &made));
        graph_.reset(made);
    }
    void update(const void* const* inputs, void* const* outputs, void* workspace) {
        check(qconv_graph_update(graph_.get(), inputs, outputs, workspace));
    }
    void launch(qconv_network_stream stream = nullptr) { check(qconv_graph_launch(graph_.get(), stream)); }

  private:
    struct Free {
        void operator()(qconv_graph* graph) const { qconv_graph_free(graph); }
    };
    std::unique_ptr<qconv_graph, Free> graph_;
};

}  // namespace qconv_network_api
