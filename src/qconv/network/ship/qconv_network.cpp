// The implementation of qconv_network.h: opens folders, checks what callers give, and hands runs to an engine.
#include "qconv_network.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "qconv_engine.h"
#include "qconv_shipped.h"

using namespace qconv_shipped;

struct qconv_network {
    Plan plan;
    std::unique_ptr<Engine> engine;
    std::string device;
    Answer answer;
};

struct qconv_graph {
    const qconv_network* network;
    size_t program;
    std::unique_ptr<Graph> graph;
};

namespace {

thread_local std::string last_error;

template <typename Work>
qconv_network_status guarded(Work work) noexcept {
    try {
        work();
        return QCONV_NETWORK_OK;
    } catch (const Failure& failure) {
        last_error = failure.text;
        return failure.status;
    } catch (const std::bad_alloc&) {
        last_error = "the host has too little memory: free some";
        return QCONV_NETWORK_NO_MEMORY;
    } catch (const std::exception& error) {
        last_error = error.what();
        return QCONV_NETWORK_INTERNAL;
    }
}

template <typename Pointer>
void require(Pointer pointer, const char* name) {
    if (pointer == nullptr) refuse(std::string(name) + " is null: give one");
}

const std::vector<const Vendor*>& vendors() {
    static const std::vector<const Vendor*> all = {
#ifdef QCONV_NETWORK_CUDA
        &cuda,
#endif
#ifdef QCONV_NETWORK_HIP
        &hip,
#endif
        &cpu};
    return all;
}

std::string listed(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

// The target of a folder that runs best on a device.
const std::string* best_of(const Folder& folder, const OpenDevice& device) {
    const std::string* best = nullptr;
    int most = 0;
    for (const std::string& target : folder.targets()) {
        const int rank = device.rank(target.c_str());
        if (rank > most) most = rank, best = &target;
    }
    return best;
}

struct Chosen {
    std::unique_ptr<OpenDevice> device;
    std::string target;
};

// Reads "cuda:1", "hip" or "cpu".
Chosen named(const Folder& folder, const std::string& device) {
    const size_t colon = device.find(':');
    const std::string kind = device.substr(0, colon);
    const std::string number = colon == std::string::npos ? "0" : device.substr(colon + 1);
    const bool is_number = !number.empty() && number.size() < 6 && strspn(number.c_str(), "0123456789") == number.size();
    std::vector<std::string> known;
    for (const Vendor* vendor : vendors()) {
        known.push_back(vendor->name);
        if (kind != vendor->name || !is_number) continue;
        auto opened = vendor->open(atoi(number.c_str()));
        const std::string* target = best_of(folder, *opened);
        if (target == nullptr)
            throw Failure{QCONV_NETWORK_NO_TARGET, "the folder has kernels for " + listed(folder.targets()) + ", of which " +
                                                       device + " runs none: export it for that device's target as well"};
        return {std::move(opened), *target};
    }
    if (is_number && (kind == "cuda" || kind == "hip"))
        refuse("this library was built without " + kind + ", for " + listed(known) + ": build it where " +
               (kind == "cuda" ? "cuda.h" : "hip/hip_runtime_api.h") + " is found");
    refuse("the device " + device + " is not known: this library was built for " + listed(known) +
           ", and a GPU's number follows a colon");
}

Chosen first_of(const Folder& folder) {
    std::string why;
    for (const Vendor* vendor : vendors()) {
        try {
            auto opened = vendor->open(0);
            const std::string* target = best_of(folder, *opened);
            if (target != nullptr) return {std::move(opened), *target};
        } catch (const Failure& failure) {  // such as a driver that is missing
            why += "; " + failure.text;
        }
    }
    throw Failure{QCONV_NETWORK_NO_TARGET, "the folder has kernels for " + listed(folder.targets()) +
                                               ", and no device here runs them" + why};
}

void open(const char* path, const char* device, qconv_network& made) {
    const Folder folder(path);
    const Chosen chosen = device == nullptr ? first_of(folder) : named(folder, device);
    const bool is_cpu = strncmp(chosen.target.c_str(), "cpu", 3) == 0;
    const std::string code = chosen.target + (is_cpu ? "/kernels.so" : "/kernels.bin");
    const auto weights = folder.open("weights.bin"), kernels = folder.open(code), text = folder.open(chosen.target + "/plan.txt");
    made.plan = read_plan(text->bytes(), kernels->bytes(), weights->bytes());
    if (made.plan.target != chosen.target)
        throw Failure{QCONV_NETWORK_BAD_FOLDER, "the plan of " + chosen.target + " is of " + made.plan.target +
                                                    ": copy the folder again, or export it anew"};
    for (const Program& program : made.plan.programs)
        for (size_t call : program.calls) folder.open(program.steps[call].symbol);
    made.engine = chosen.device->load(made.plan, weights->bytes(), folder.path_of(code));
    made.device = made.engine->name();
}

const Program& program_of(const qconv_network* network, size_t program) {
    require(network, "network");
    if (program >= network->plan.programs.size())
        refuse("there is no program " + std::to_string(program) + ": the network has " +
               std::to_string(network->plan.programs.size()) + ", counted from 0");
    return network->plan.programs[program];
}

void check_array(const void* array, const Port& port) {
    if (array == nullptr) refuse(port.name + " is null: give an array of " + std::to_string(port.bytes) + " bytes");
    if (reinterpret_cast<uintptr_t>(array) % QCONV_NETWORK_ALIGNMENT != 0)
        refuse(port.name + " needs " + std::to_string(QCONV_NETWORK_ALIGNMENT) + "-byte alignment: copy it to such an address");
}

Arrays checked(const Program& program, const void* const* inputs, void* const* outputs, void* workspace) {
    if (!program.inputs.empty()) require(inputs, "inputs");
    require(outputs, "outputs");
    for (size_t i = 0; i < program.inputs.size(); ++i) check_array(inputs[i], program.inputs[i]);
    for (size_t i = 0; i < program.outputs.size(); ++i) check_array(outputs[i], program.outputs[i]);
    if (program.arena_bytes > 0 && (workspace == nullptr || reinterpret_cast<uintptr_t>(workspace) % 256 != 0))
        refuse("workspace must have " + std::to_string(program.arena_bytes) +
               " bytes at a multiple of 256: qconv_network_allocate gives such memory");
    return {inputs, outputs, workspace};
}

// Adds who answers the calls of these steps.
Arrays answered(const qconv_network* network, const Program& program, size_t first, size_t last, Arrays arrays) {
    for (size_t call : program.calls)
        if (first <= call && call < last && network->answer.function == nullptr)
            refuse("no kernel computes " + program.steps[call].layer +
                   ": give a function for it, by qconv_network_set_answer, or open the folder in Python");
    arrays.answer = &network->answer;
    return arrays;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
    std::string text;
    for (uint64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text;
}

// Says which shapes there are programs for.
std::string served(const Plan& plan) {
    std::string text;
    for (const Program& program : plan.programs) {
        std::string shapes;
        for (const Port& port : program.inputs) shapes += (shapes.empty() ? "" : " ") + port.name + " " + shape_text(port.shape);
        text += (text.empty() ? "" : "; ") + shapes;
    }
    return text;
}

qconv_network_tensor tensor_of(const Port& port) {
    qconv_network_tensor tensor = {};
    tensor.name = port.name.c_str();
    tensor.type = port.type.c_str();
    tensor.rank = static_cast<unsigned>(port.shape.size());
    for (size_t i = 0; i < port.shape.size(); ++i) tensor.shape[i] = port.shape[i];
    tensor.bytes = port.bytes;
    tensor.is_counted = port.is_counted;
    return tensor;
}

void give(const std::vector<Port>& ports, size_t index, const char* what, qconv_network_tensor* tensor) {
    require(tensor, "tensor");
    if (index >= ports.size())
        refuse(std::string("there is no ") + what + " " + std::to_string(index) + ": the network has " +
               std::to_string(ports.size()) + ", counted from 0");
    *tensor = tensor_of(ports[index]);
}

}  // namespace

extern "C" {

int qconv_network_abi_version(void) { return QCONV_NETWORK_ABI_VERSION; }
const char* qconv_network_last_error(void) { return last_error.c_str(); }

const char* qconv_network_status_text(qconv_network_status status) {
    switch (status) {
        case QCONV_NETWORK_OK:
            return "ok";
        case QCONV_NETWORK_BAD_ARGUMENT:
            return "an argument is invalid";
        case QCONV_NETWORK_BAD_FOLDER:
            return "the folder is damaged, incomplete, or of another version";
        case QCONV_NETWORK_NO_TARGET:
            return "the folder has no kernels for this device";
        case QCONV_NETWORK_NO_DEVICE:
            return "there is no such device, or no driver for it";
        case QCONV_NETWORK_NO_MEMORY:
            return "the host or the device has too little memory";
        case QCONV_NETWORK_LAUNCH_FAILED:
            return "the driver or the CPU runtime failed";
        case QCONV_NETWORK_INTERNAL:
            return "an error of this library";
    }
    return "an unknown status";
}

qconv_network_status qconv_network_open(const char* folder, const char* device, qconv_network** network) {
    return guarded([&] {
        require(folder, "folder");
        require(network, "network");
        auto made = std::make_unique<qconv_network>();
        open(folder, device, *made);
        *network = made.release();
    });
}

void qconv_network_close(qconv_network* network) { delete network; }

const char* qconv_network_target(const qconv_network* network) { return network == nullptr ? "" : network->plan.target.c_str(); }
const char* qconv_network_device(const qconv_network* network) { return network == nullptr ? "" : network->device.c_str(); }

size_t qconv_network_program_count(const qconv_network* network) { return network == nullptr ? 0 : network->plan.programs.size(); }
size_t qconv_network_input_count(const qconv_network* network) {
    return network == nullptr ? 0 : network->plan.programs[0].inputs.size();
}
size_t qconv_network_output_count(const qconv_network* network) {
    return network == nullptr ? 0 : network->plan.programs[0].outputs.size();
}

qconv_network_status qconv_network_input(const qconv_network* network, size_t program, size_t index,
                                         qconv_network_tensor* tensor) {
    return guarded([&] { give(program_of(network, program).inputs, index, "input", tensor); });
}
qconv_network_status qconv_network_output(const qconv_network* network, size_t program, size_t index,
                                          qconv_network_tensor* tensor) {
    return guarded([&] { give(program_of(network, program).outputs, index, "output", tensor); });
}

qconv_network_status qconv_network_find(const qconv_network* network, const uint64_t* const* shapes, size_t* program) {
    return guarded([&] {
        require(network, "network");
        require(program, "program");
        const auto& programs = network->plan.programs;
        if (!programs[0].inputs.empty()) require(shapes, "shapes");
        std::string asked;
        for (size_t i = 0; i < programs.size(); ++i) {
            bool is_equal = true;
            asked.clear();
            for (size_t j = 0; j < programs[i].inputs.size(); ++j) {
                const Port& port = programs[i].inputs[j];
                require(shapes[j], port.name.c_str());
                const std::vector<uint64_t> shape(shapes[j], shapes[j] + port.shape.size());
                is_equal = is_equal && shape == port.shape;
                asked += (asked.empty() ? "" : " ") + port.name + " " + shape_text(shape);
            }
            if (is_equal) {
                *program = i;
                return;
            }
        }
        refuse("there is no program for " + asked + "; there is one for " + served(network->plan) +
               ": give such inputs, or export these shapes too");
    });
}

qconv_network_status qconv_network_find_batch(const qconv_network* network, uint64_t batch, size_t* program) {
    return guarded([&] {
        require(network, "network");
        require(program, "program");
        const auto& programs = network->plan.programs;
        for (size_t i = 0; i < programs.size(); ++i) {
            bool is_of_batch = !programs[i].inputs.empty();
            for (const Port& port : programs[i].inputs)
                is_of_batch = is_of_batch && (port.shape.empty() || port.shape[0] == batch);
            if (is_of_batch) {
                *program = i;
                return;
            }
        }
        refuse("there is no program for a batch of " + std::to_string(batch) + "; there is one for " +
               served(network->plan) + ": give such inputs, or export this batch too, with --batch");
    });
}

uint64_t qconv_network_workspace_bytes(const qconv_network* network, size_t program) {
    if (network == nullptr || program >= network->plan.programs.size()) return 0;
    return network->plan.programs[program].arena_bytes;
}

qconv_network_status qconv_network_run(const qconv_network* network, size_t program, qconv_network_stream stream,
                                       const void* const* inputs, void* const* outputs, void* workspace) {
    return guarded([&] {
        const Program& found = program_of(network, program);
        const Arrays arrays = checked(found, inputs, outputs, workspace);
        network->engine->run(found, 0, found.steps.size(), answered(network, found, 0, found.steps.size(), arrays), stream);
    });
}

size_t qconv_network_step_count(const qconv_network* network, size_t program) {
    if (network == nullptr || program >= network->plan.programs.size()) return 0;
    return network->plan.programs[program].steps.size();
}

qconv_network_status qconv_network_step_of(const qconv_network* network, size_t program, size_t index,
                                           qconv_network_step* step) {
    return guarded([&] {
        const Program& found = program_of(network, program);
        require(step, "step");
        if (index >= found.steps.size())
            refuse("there is no step " + std::to_string(index) + ": the program has " + std::to_string(found.steps.size()) +
                   ", counted from 0");
        *step = {found.steps[index].layer.c_str(), found.steps[index].symbol.c_str()};
    });
}

qconv_network_status qconv_network_set_answer(qconv_network* network, qconv_network_answer function, void* context) {
    return guarded([&] {
        require(network, "network");
        require(function, "function");
        network->answer = {function, context};
    });
}

size_t qconv_network_call_count(const qconv_network* network, size_t program) {
    if (network == nullptr || program >= network->plan.programs.size()) return 0;
    return network->plan.programs[program].calls.size();
}

qconv_network_status qconv_network_call_of(const qconv_network* network, size_t program, size_t index, const char** file) {
    return guarded([&] {
        const Program& found = program_of(network, program);
        require(file, "file");
        if (index >= found.calls.size())
            refuse("there is no call " + std::to_string(index) + ": the program has " + std::to_string(found.calls.size()) +
                   ", counted from 0");
        *file = found.steps[found.calls[index]].symbol.c_str();
    });
}

size_t qconv_network_made_count(const qconv_network* network, size_t program) {
    if (network == nullptr || program >= network->plan.programs.size()) return 0;
    return network->plan.programs[program].made.size();
}

qconv_network_status qconv_network_made_of(const qconv_network* network, size_t program, size_t index,
                                           void* const* outputs, const void* workspace, qconv_network_made* made) {
    return guarded([&] {
        const Program& of = program_of(network, program);
        require(outputs, "outputs");
        require(made, "made");
        if (index >= of.made.size())
            refuse("there is no tensor " + std::to_string(index) + ": the steps complete " +
                   std::to_string(of.made.size()) + ", counted from 0");
        const Made& found = of.made[index];
        const bool is_output = found.place.space == Space::output;
        const void* const whole = is_output ? outputs[found.place.number] : workspace;
        require(whole, is_output ? "an output" : "workspace");
        *made = {found.name.c_str(), found.is_channels_last, found.step,
                 static_cast<const char*>(whole) + found.place.offset, found.bytes};
    });
}

qconv_network_status qconv_network_run_steps(const qconv_network* network, size_t program, size_t first, size_t last,
                                             qconv_network_stream stream, const void* const* inputs, void* const* outputs,
                                             void* workspace) {
    return guarded([&] {
        const Program& found = program_of(network, program);
        if (first > last || last > found.steps.size())
            refuse("the steps from " + std::to_string(first) + " to before " + std::to_string(last) +
                   " are not of the program, which has " + std::to_string(found.steps.size()));
        const Arrays arrays = checked(found, inputs, outputs, workspace);
        network->engine->run(found, first, last, answered(network, found, first, last, arrays), stream);
    });
}

qconv_network_status qconv_graph_create(const qconv_network* network, size_t program, const void* const* inputs,
                                        void* const* outputs, void* workspace, qconv_graph** graph) {
    return guarded([&] {
        const Program& found = program_of(network, program);
        require(graph, "graph");
        if (!found.calls.empty())
            refuse("a graph cannot call the function for " + found.steps[found.calls[0]].layer + ": run the program");
        const Arrays arrays = checked(found, inputs, outputs, workspace);
        *graph = new qconv_graph{network, program, network->engine->graph(found, arrays)};
    });
}

qconv_network_status qconv_graph_update(qconv_graph* graph, const void* const* inputs, void* const* outputs,
                                        void* workspace) {
    return guarded([&] {
        require(graph, "graph");
        graph->graph->update(checked(program_of(graph->network, graph->program), inputs, outputs, workspace));
    });
}

qconv_network_status qconv_graph_launch(qconv_graph* graph, qconv_network_stream stream) {
    return guarded([&] {
        require(graph, "graph");
        graph->graph->launch(stream);
    });
}

void qconv_graph_free(qconv_graph* graph) { delete graph; }

qconv_network_status qconv_network_allocate(const qconv_network* network, uint64_t bytes, void** memory) {
    return guarded([&] {
        require(network, "network");
        require(memory, "memory");
        *memory = network->engine->allocate(bytes);
    });
}

void qconv_network_free(const qconv_network* network, void* memory) {
    if (network != nullptr && memory != nullptr) network->engine->release(memory);
}

qconv_network_status qconv_network_upload(const qconv_network* network, void* to, const void* from_host, uint64_t bytes) {
    return guarded([&] {
        require(network, "network");
        network->engine->upload(to, from_host, bytes);
    });
}

qconv_network_status qconv_network_download(const qconv_network* network, void* to_host, const void* from, uint64_t bytes) {
    return guarded([&] {
        require(network, "network");
        network->engine->download(to_host, from, bytes);
    });
}

qconv_network_status qconv_network_synchronize(const qconv_network* network, qconv_network_stream stream) {
    return guarded([&] {
        require(network, "network");
        network->engine->synchronize(stream);
    });
}

}  // extern "C"
