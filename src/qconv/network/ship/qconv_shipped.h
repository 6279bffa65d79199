// The files of a folder, checked when they are opened, and the plans that they hold. Private to the library.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "qconv_network.h"

namespace qconv_shipped {

struct Failure {
    qconv_network_status status;
    std::string text;
};

[[noreturn]] inline void refuse(const std::string& text) { throw Failure{QCONV_NETWORK_BAD_ARGUMENT, text}; }

// Bytes of a file that is mapped.
struct Bytes {
    const unsigned char* first = nullptr;
    size_t count = 0;
};

// A file that is mapped for as long as the object lives.
class Mapped {
  public:
    explicit Mapped(const std::string& path);
    Mapped(const Mapped&) = delete;
    ~Mapped();
    Bytes bytes() const { return bytes_; }

  private:
    Bytes bytes_;
};

// A folder with its list of files. A file is compared with the list when it is opened.
class Folder {
  public:
    explicit Folder(const std::string& path);
    const std::vector<std::string>& targets() const { return targets_; }
    std::string path_of(const std::string& file) const { return path_ + "/" + file; }
    std::unique_ptr<Mapped> open(const std::string& file) const;

  private:
    struct Listed {
        uint64_t bytes;
        uint32_t crc;
    };
    std::string path_;
    std::vector<std::string> targets_;
    std::map<std::string, Listed> files_;
};

// input, output  an array of the caller, by its number
// constant       an array of the file of weights, by its number
// state          an array that the setup writes when the network is opened, by its number
// arena          the workspace of a run
enum class Space { input, output, constant, state, arena };

// Their addresses are on the stack of a run.
constexpr size_t MOST_CALL_ARRAYS = 128;

struct Place {
    Space space;
    uint32_t number;
    uint64_t offset;
};

struct Pointer {
    uint32_t offset;  // among the arguments
    Place place;
};

// The numbers of a tensor map. For the CPU, `described` is what its runtime reads, but for the address.
struct Map {
    uint32_t offset;
    Place place;
    bool is_im2col;
    uint32_t type, rank, swizzle, l2_promotion, channels, pixels;
    uint64_t dims[5], strides[4];
    uint32_t box[5], element_strides[5];
    int32_t lower[3], upper[3];
    unsigned char described[128];
};

enum class Kind { launch, fill, copy, gather, call };

struct Step {
    Kind kind;
    uint32_t number = 0;  // among all steps of the plan
    std::string layer, symbol;
    // A launch.
    uint32_t kernel = 0, grid[3] = {}, threads = 0, smem_bytes = 0, cluster = 1;
    bool overlap = false;
    std::vector<unsigned char> arguments;
    std::vector<Pointer> pointers;
    std::vector<Map> maps;
    // A fill, a copy, or a gather of elements at these strides, in bytes.
    Place to = {}, from = {};
    uint64_t bytes = 0;
    uint32_t byte = 0, item_bytes = 0;
    std::vector<uint64_t> shape;
    std::vector<int64_t> strides;
    // A call of the caller's function, for the file that `symbol` names.
    std::vector<Place> inputs, outputs;
};

struct Port {
    std::string name, type;
    std::vector<uint64_t> shape;
    uint64_t bytes;
    bool is_counted;
};

// A tensor that a step completes, in the arena or in an output.
struct Made {
    std::string name;
    bool is_channels_last;
    size_t step;
    Place place;
    uint64_t bytes;
};

struct Program {
    uint64_t arena_bytes;
    std::vector<Port> inputs, outputs;
    std::vector<Step> steps;
    std::vector<Made> made;
    std::vector<size_t> calls;  // the steps that are calls
};

struct Constant {
    uint64_t offset, bytes;  // in the file of weights
    bool is_resident;        // runs read it, and not the setup alone
};

struct Plan {
    std::string target;
    uint32_t warp_size;
    std::vector<Bytes> kernels;
    std::vector<Constant> constants;
    std::vector<uint64_t> states;  // bytes
    std::vector<Step> setup;
    std::vector<Program> programs;
    uint32_t step_count = 0;

    // Calls `work` with every step, those of the setup first.
    template <typename Work>
    void each_step(Work work) const {
        for (const Step& step : setup) work(step);
        for (const Program& program : programs)
            for (const Step& step : program.steps) work(step);
    }
};

// Reads a plan. Every number is checked against what it counts or points into.
Plan read_plan(Bytes text, Bytes kernels, Bytes weights);

}  // namespace qconv_shipped
