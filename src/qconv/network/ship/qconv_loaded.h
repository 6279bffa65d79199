// The engine of a kind of device, as a template over it. A device has:
//
//     Code, load(plan, path)   the kernels of a plan, and the functions that it launches
//     launch(code, step, arguments, stream), encode(map, address, into)
//     fill, copy, gather, allocate, release, upload, download, synchronize, name
//     Graph                    record(device, work), launch(device, stream)
//
// All throw Failure.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "qconv_engine.h"

namespace qconv_shipped {

// Memory of a device, freed by the destructor.
template <typename Device>
class Memory {
  public:
    Memory(Device& device, uint64_t bytes) : device_(&device), address_(device.allocate(bytes)) {}
    Memory(const Memory&) = delete;
    ~Memory() { device_->release(address_); }
    char* address() const { return static_cast<char*>(address_); }

  private:
    Device* device_;
    void* address_;
};

// The addresses of arrays that lie behind each other in one block of memory.
class Block {
  public:
    void add(uint64_t bytes) {
        offsets_.push_back(bytes_);
        bytes_ += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    uint64_t bytes() const { return bytes_; }
    uint64_t operator[](size_t number) const { return offsets_[number]; }

  private:
    static constexpr uint64_t ALIGNMENT = 256;
    std::vector<uint64_t> offsets_;
    uint64_t bytes_ = 0;
};

template <typename Device>
class Loaded : public Engine {
  public:
    Loaded(std::unique_ptr<Device> device, const Plan& plan, Bytes weights, const std::string& path)
        : held_(std::move(device)), device_(*held_), code_(device_.load(plan, path)) {
        Block resident, passing;
        for (const Constant& one : plan.constants) {
            resident.add(one.is_resident ? one.bytes : 0);
            passing.add(one.is_resident ? 0 : one.bytes);
        }
        for (uint64_t bytes : plan.states) states_.add(bytes);
        resident_ = std::make_unique<Memory<Device>>(device_, resident.bytes());
        state_ = std::make_unique<Memory<Device>>(device_, states_.bytes());
        const Memory<Device> packed(device_, passing.bytes());  // freed when the setup has run
        for (size_t i = 0; i < plan.constants.size(); ++i) {
            const Constant& one = plan.constants[i];
            char* const to = one.is_resident ? resident_->address() + resident[i] : packed.address() + passing[i];
            constants_.push_back(to);
            device_.upload(to, weights.first + one.offset, one.bytes);
        }
        settled_.resize(plan.step_count);
        plan.each_step([this](const Step& step) { settled_[step.number] = settled(step); });
        const Arrays none = {nullptr, nullptr, nullptr};
        for (const Step& step : plan.setup) take(step, none, nullptr);
        device_.synchronize(nullptr);
    }

    std::string name() const override { return device_.name(); }

    void run(const Program& program, size_t first, size_t last, const Arrays& arrays,
             qconv_network_stream stream) override {
        for (size_t i = first; i < last; ++i) take(program.steps[i], arrays, stream);
    }

    std::unique_ptr<Graph> graph(const Program& program, const Arrays& arrays) override {
        return std::make_unique<Recorded>(*this, program, arrays);
    }

    void* allocate(uint64_t bytes) override { return device_.allocate(bytes); }
    void release(void* memory) override { device_.release(memory); }
    void upload(void* to, const void* from, uint64_t bytes) override { device_.upload(to, from, bytes); }
    void download(void* to, const void* from, uint64_t bytes) override { device_.download(to, from, bytes); }
    void synchronize(qconv_network_stream stream) override { device_.synchronize(stream); }

  private:
    // The caller's lists of arrays, which may be gone when a graph that is a run is launched.
    class Owned {
      public:
        Owned(const Program& program, const Arrays& arrays)
            : inputs_(arrays.inputs, arrays.inputs + program.inputs.size()),
              outputs_(arrays.outputs, arrays.outputs + program.outputs.size()),
              workspace_(arrays.workspace) {}
        Arrays arrays() const { return {inputs_.data(), outputs_.data(), workspace_}; }

      private:
        std::vector<const void*> inputs_;
        std::vector<void*> outputs_;
        void* workspace_;
    };

    class Recorded : public Graph {
      public:
        Recorded(Loaded& engine, const Program& program, const Arrays& arrays) : engine_(engine), program_(program) {
            update(arrays);
        }
        void update(const Arrays& arrays) override {
            const Owned owned(program_, arrays);
            graph_.record(engine_.device_, [this, owned](qconv_network_stream stream) {
                engine_.run(program_, 0, program_.steps.size(), owned.arrays(), stream);
            });
        }
        void launch(qconv_network_stream stream) override { graph_.launch(engine_.device_, stream); }

      private:
        Loaded& engine_;
        const Program& program_;
        typename Device::Graph graph_;
    };

    char* at(const Place& place, const Arrays& arrays) const {
        const uint64_t offset = place.offset;
        switch (place.space) {
            case Space::input:
                return static_cast<char*>(const_cast<void*>(arrays.inputs[place.number])) + offset;
            case Space::output:
                return static_cast<char*>(arrays.outputs[place.number]) + offset;
            case Space::constant:
                return constants_[place.number] + offset;
            case Space::state:
                return state_->address() + states_[place.number] + offset;
            case Space::arena:
                return static_cast<char*>(arrays.workspace) + offset;
        }
        return nullptr;
    }

    void take(const Step& step, const Arrays& arrays, qconv_network_stream stream) {
        switch (step.kind) {
            case Kind::launch:
                return launch(step, arrays, stream);
            case Kind::fill:
                return device_.fill(at(step.to, arrays), static_cast<int>(step.byte), step.bytes, stream);
            case Kind::copy:
                return device_.copy(at(step.to, arrays), at(step.from, arrays), step.bytes, stream);
            case Kind::gather:
                return device_.gather(step, at(step.to, arrays), at(step.from, arrays));
            case Kind::call:
                return call(step, arrays, stream);
        }
    }

    void call(const Step& step, const Arrays& arrays, qconv_network_stream stream) const {
        const void* inputs[MOST_CALL_ARRAYS];
        void* outputs[MOST_CALL_ARRAYS];
        for (size_t i = 0; i < step.inputs.size(); ++i) inputs[i] = at(step.inputs[i], arrays);
        for (size_t i = 0; i < step.outputs.size(); ++i) outputs[i] = at(step.outputs[i], arrays);
        const Answer& answer = *arrays.answer;
        if (answer.function(answer.context, step.symbol.c_str(), stream, inputs, outputs) != 0)
            throw Failure{QCONV_NETWORK_LAUNCH_FAILED,
                          "the function that was given for " + step.layer + ", " + step.symbol + ", has failed: it knows why"};
    }

    // The arguments of a launch, with everything in them that is the same in every run: a map takes the driver longer
    // to encode than all other arguments to copy. `pointers` and `maps` are of a run's arrays.
    struct Settled {
        std::vector<unsigned char> arguments;
        std::vector<Pointer> pointers;
        std::vector<Map> maps;
    };

    Settled settled(const Step& step) {
        Settled made = {step.arguments, {}, {}};
        const Arrays none = {nullptr, nullptr, nullptr};
        const auto is_fixed = [](const Place& place) {
            return place.space == Space::constant || place.space == Space::state;
        };
        for (const Pointer& pointer : step.pointers) {
            if (is_fixed(pointer.place)) put(pointer, none, made.arguments.data());
            else made.pointers.push_back(pointer);
        }
        for (const Map& map : step.maps) {
            if (is_fixed(map.place)) put(map, none, made.arguments.data());
            else made.maps.push_back(map);
        }
        return made;
    }

    void put(const Pointer& pointer, const Arrays& arrays, unsigned char* arguments) const {
        const uint64_t address = reinterpret_cast<uintptr_t>(at(pointer.place, arrays));
        memcpy(arguments + pointer.offset, &address, sizeof address);
    }
    void put(const Map& map, const Arrays& arrays, unsigned char* arguments) {
        alignas(64) unsigned char encoded[sizeof map.described];  // as the driver wants it, and a copy of it
        device_.encode(map, reinterpret_cast<uintptr_t>(at(map.place, arrays)), encoded);
        memcpy(arguments + map.offset, encoded, sizeof encoded);
    }

    // Builds the arguments on the stack: a run allocates nothing, and several threads may run.
    void launch(const Step& step, const Arrays& arrays, qconv_network_stream stream) {
        const Settled& settled = settled_[step.number];
        alignas(64) unsigned char arguments[4096];
        memcpy(arguments, settled.arguments.data(), settled.arguments.size());
        for (const Pointer& pointer : settled.pointers) put(pointer, arrays, arguments);
        for (const Map& map : settled.maps) put(map, arrays, arguments);
        device_.launch(code_, step, arguments, stream);
    }

    std::unique_ptr<Device> held_;
    Device& device_;
    typename Device::Code code_;
    std::unique_ptr<Memory<Device>> resident_, state_;
    Block states_;
    std::vector<char*> constants_;
    std::vector<Settled> settled_;  // by the numbers of steps
};

template <typename Device>
class OpenFor : public OpenDevice {
  public:
    explicit OpenFor(int index) : device_(std::make_unique<Device>(index)) {}
    int rank(const char* target) const override { return device_->rank(target); }
    std::unique_ptr<Engine> load(const Plan& plan, Bytes weights, const std::string& code) override {
        return std::make_unique<Loaded<Device>>(std::move(device_), plan, weights, code);
    }

  private:
    std::unique_ptr<Device> device_;
};

template <typename Device>
std::unique_ptr<OpenDevice> open_device(int index) {
    return std::make_unique<OpenFor<Device>>(index);
}

}  // namespace qconv_shipped
