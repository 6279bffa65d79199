// Runs a shipped network: its outputs, its latency and throughput, and a table by layer; or compares its outputs with
// the stored ones.
//
// Exit status: 0 if all went well, 1 where an output is wrong or a run failed, 2 for words that it does not know.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "drawn.h"
#include "npy.h"
#include "qconv_crc.h"
#include "qconv_network.hpp"

using namespace qconv_network_api;

namespace {

constexpr const char* USAGE = R"(usage: qconv_run FOLDER [options]

  --device D          "cuda:0", "hip:0" or "cpu"; by default the first GPU that the folder has kernels for
  --batch N           the program for this batch; by default the first one that takes the inputs and shapes given
  --shape NAME=1x3x8  the program for an input of this shape; without a name, the next one
  --input NAME=X.npy  an input; without a name, the next one. Inputs that are not given are drawn at random
  --output FOLDER     write the outputs there, as NAME.npy
  --seconds S         run for that long and report the latency and the throughput (default 1; 0: run once)
  --launches          launch kernel by kernel, instead of as one graph
  --profile           a table of the time of each layer by itself
  --json FILE         write the figures as JSON
  --self-test         compare every output, and every tensor that a kernel makes, with what is stored, and say which
                      differs, and which kernel made it
)";

struct Asked {
    std::string folder, device, output, json;
    uint64_t batch = 0;
    std::vector<std::pair<std::string, std::string>> inputs, shapes;
    double seconds = 1;
    bool launches = false, profile = false, self_test = false;
};

struct BadWord : std::runtime_error {
    using std::runtime_error::runtime_error;
};

double number_of(const std::string& word, const std::string& text) {
    char* end = nullptr;
    const double number = strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(number >= 0)) throw BadWord(word + " takes a number, and not " + text);
    return number;
}

Asked read_words(int count, char** words) {
    Asked asked;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        const auto next = [&]() -> std::string {
            if (i + 1 == count) throw BadWord(word + " takes a word behind it");
            return words[++i];
        };
        if (word == "--device") asked.device = next();
        else if (word == "--batch") asked.batch = static_cast<uint64_t>(number_of(word, next()));
        else if (word == "--output") asked.output = next();
        else if (word == "--seconds") asked.seconds = number_of(word, next());
        else if (word == "--json") asked.json = next();
        else if (word == "--launches") asked.launches = true;
        else if (word == "--profile") asked.profile = true;
        else if (word == "--self-test") asked.self_test = true;
        else if (word == "--input" || word == "--shape") {
            const std::string given = next();
            const size_t equals = word == "--input" ? given.find('=') : given.rfind('=');
            const size_t end = equals == std::string::npos ? 0 : equals;
            (word == "--input" ? asked.inputs : asked.shapes)
                .emplace_back(given.substr(0, end), given.substr(equals == std::string::npos ? 0 : equals + 1));
        } else if (word.compare(0, 2, "--") == 0 || !asked.folder.empty()) {
            throw BadWord("the word " + word + " is not known");
        } else {
            asked.folder = word;
        }
    }
    if (asked.folder.empty()) throw BadWord("there is no folder");
    if (asked.batch > 0 && !asked.shapes.empty()) throw BadWord("--batch and --shape both choose the program: give one");
    return asked;
}

// The arrays of a program on the device.
struct Arrays {
    std::vector<Memory> inputs, outputs;
    Memory workspace;
    std::vector<const void*> given;
    std::vector<void*> made;

    Arrays(const Network& network, size_t program) : workspace(network, network.workspace_bytes(program)) {
        for (const auto& tensor : network.inputs(program)) inputs.emplace_back(network, tensor.bytes);
        for (const auto& tensor : network.outputs(program)) outputs.emplace_back(network, tensor.bytes);
        for (const Memory& memory : inputs) given.push_back(memory.address());
        for (const Memory& memory : outputs) made.push_back(memory.address());
    }
};

std::vector<uint64_t> shape_of(const qconv_network_tensor& tensor) { return {tensor.shape, tensor.shape + tensor.rank}; }

std::string shown(const std::vector<uint64_t>& shape) {
    std::string text;
    for (uint64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text.empty() ? "a number" : text;
}

// Returns what an option gives for each input: by its name, or for the next one; "" where it gives nothing.
std::vector<std::string> by_input(const std::vector<qconv_network_tensor>& tensors, const char* option,
                                  const std::vector<std::pair<std::string, std::string>>& given) {
    std::vector<std::string> found(tensors.size());
    for (const auto& [name, text] : given) {
        size_t at = 0;
        while (at < tensors.size() && (name.empty() ? !found[at].empty() : name != tensors[at].name)) ++at;
        if (at == tensors.size())
            throw BadWord(std::string(option) + " " + name + "=" + text + " is of no input of the network");
        found[at] = text;
    }
    return found;
}

std::vector<uint64_t> read_shape(const std::string& text) {
    std::vector<uint64_t> shape;
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, 'x');) {
        if (word.empty() || word.size() > 9 || word.find_first_not_of("0123456789") != std::string::npos)
            throw BadWord("--shape takes extents such as 1x3x224x224, and not " + text);
        shape.push_back(std::stoull(word));
    }
    return shape;
}

// Finds the first program that takes the shapes and the files that were given.
size_t program_for(const Network& network, const Asked& asked) {
    if (asked.batch > 0) return network.of_batch(asked.batch);
    const auto tensors = network.inputs(0);
    const auto paths = by_input(tensors, "--input", asked.inputs), shapes = by_input(tensors, "--shape", asked.shapes);
    std::vector<std::vector<uint64_t>> wanted(tensors.size());  // none: any shape
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (!shapes[i].empty()) wanted[i] = read_shape(shapes[i]);
        else if (!paths[i].empty()) wanted[i] = npy::read(paths[i]).shape;
    }
    for (size_t program = 0; program < network.programs(); ++program) {
        const auto taken = network.inputs(program);
        bool takes = true;
        for (size_t i = 0; i < taken.size(); ++i) takes = takes && (wanted[i].empty() || wanted[i] == shape_of(taken[i]));
        if (takes) return program;
    }
    for (size_t i = 0; i < tensors.size(); ++i)
        if (wanted[i].empty()) wanted[i] = shape_of(tensors[i]);
    return network.of_shapes(wanted);  // says which shapes there are
}

// Reads the inputs that were given, and draws the others.
void fill(const Network& network, size_t program, const Asked& asked, Arrays& arrays) {
    const auto tensors = network.inputs(program);
    const std::vector<std::string> paths = by_input(tensors, "--input", asked.inputs);
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (paths[i].empty()) {
            arrays.inputs[i].upload(drawn::array(tensors[i], i + 1).data());
            continue;
        }
        const Npy read = npy::read(paths[i]);
        if (read.type != tensors[i].type || read.shape != shape_of(tensors[i]))
            throw std::runtime_error(paths[i] + " is " + read.type + " " + shown(read.shape) + ", and the input " +
                                     tensors[i].name + " is " + tensors[i].type + " " + shown(shape_of(tensors[i])) +
                                     ": convert it, or leave --batch and --shape out");
        arrays.inputs[i].upload(read.bytes.data());
    }
}

// Names of tensors may have characters that names of files may not.
std::string file_name(std::string name) {
    for (char& c : name)
        if (strchr("/\\:*?\"<>| ", c) != nullptr) c = '_';
    return name;
}

void write_outputs(const Network& network, size_t program, const Arrays& arrays, const std::string& folder) {
    const auto tensors = network.outputs(program);
    for (size_t i = 0; i < tensors.size(); ++i) {
        Npy made = {tensors[i].type, shape_of(tensors[i]), std::vector<char>(tensors[i].bytes)};
        arrays.outputs[i].download(made.bytes.data());
        npy::write(folder + "/" + file_name(tensors[i].name) + ".npy", made);
    }
}

double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Latency {
    size_t runs = 0;
    double p50_us = 0, p99_us = 0, least_us = 0, runs_per_s = 0;
};

// Runs for some seconds: first each run by itself for the latency, then one behind the other for the throughput.
template <typename Run>
Latency measured(const Network& network, double seconds, Run run) {
    std::vector<double> times;
    const double half = seconds * 1e6 / 2, begin = now_us();
    while (times.empty() || now_us() - begin < half) {
        const double before = now_us();
        run();
        network.synchronize();
        times.push_back(now_us() - before);
    }
    std::sort(times.begin(), times.end());
    Latency found;
    found.least_us = times.front();
    found.p50_us = times[times.size() / 2];
    found.p99_us = times[std::min(times.size() - 1, times.size() * 99 / 100)];
    const size_t at_once = std::max<size_t>(1, static_cast<size_t>(half / 8 / found.p50_us));
    const double first = now_us();
    while (found.runs == 0 || now_us() - first < half) {
        for (size_t i = 0; i < at_once; ++i) run();
        network.synchronize();
        found.runs += at_once;
    }
    found.runs_per_s = static_cast<double>(found.runs) / (now_us() - first) * 1e6;
    found.runs += times.size();
    return found;
}

struct StepTime {
    std::string layer, kernel;
    double us;
};

// Times every step by itself, several times in a row.
std::vector<StepTime> profile(const Network& network, size_t program, const Arrays& arrays) {
    constexpr int TIMES = 3;
    const int repeats = network.target().compare(0, 3, "cpu") == 0 ? 1 : 32;
    std::vector<StepTime> found;
    for (size_t i = 0; i < qconv_network_step_count(network.get(), program); ++i) {
        qconv_network_step step;
        check(qconv_network_step_of(network.get(), program, i, &step));
        double least = 0;
        for (int time = 0; time < TIMES; ++time) {
            network.synchronize();
            const double begin = now_us();
            for (int repeat = 0; repeat < repeats; ++repeat)
                check(qconv_network_run_steps(network.get(), program, i, i + 1, nullptr, arrays.given.data(),
                                              arrays.made.data(), arrays.workspace.address()));
            network.synchronize();
            const double us = (now_us() - begin) / repeats;
            if (time == 0 || us < least) least = us;
        }
        found.push_back({step.layer, step.kernel, least});
    }
    return found;
}

void print(const std::vector<StepTime>& steps) {
    double sum = 0;
    for (const StepTime& step : steps) sum += step.us;
    printf("%10s %6s  %-28s %s\n", "us", "share", "kernel", "layer");
    for (const StepTime& step : steps)
        printf("%10.2f %5.1f%%  %-28s %s\n", step.us, 100 * step.us / sum, step.kernel.c_str(), step.layer.c_str());
    printf("%10.2f         each step by itself, its launch included\n", sum);
}

std::string quoted(const std::string& text) {
    std::string made = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') made += '\\';
        if (static_cast<unsigned char>(c) < 32) {
            char escaped[8];
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
            made += escaped;
        } else {
            made += c;
        }
    }
    return made + "\"";
}

void write_json(const std::string& path, const Network& network, size_t program, double open_ms, const Latency& latency,
                const std::vector<StepTime>& steps) {
    std::ofstream file(path);
    file << "{\"target\": " << quoted(network.target()) << ", \"device\": " << quoted(network.device())
         << ", \"inputs\": {";
    const char* comma = "";
    for (const auto& tensor : network.inputs(program)) {
        file << comma << quoted(tensor.name) << ": " << quoted(shown(shape_of(tensor)));
        comma = ", ";
    }
    file << "}, \"open_ms\": " << open_ms << ", \"workspace_bytes\": " << network.workspace_bytes(program) << ", \"runs\": " << latency.runs
         << ", \"p50_us\": " << latency.p50_us << ", \"p99_us\": " << latency.p99_us
         << ", \"least_us\": " << latency.least_us << ", \"runs_per_s\": " << latency.runs_per_s << ", \"steps\": [";
    comma = "";
    for (const StepTime& step : steps) {
        file << comma << "\n{\"layer\": " << quoted(step.layer) << ", \"kernel\": " << quoted(step.kernel)
             << ", \"us\": " << step.us << "}";
        comma = ",";
    }
    file << "]}\n";
    file.close();
    if (!file) throw std::runtime_error(path + " cannot be written: is there room, and the folder?");
}

// Cuts off the rows behind those that the first one counts, and the first one itself.
std::vector<char> counted(const std::vector<char>& rows, size_t row_bytes, size_t item_bytes) {
    uint64_t count = 0;
    memcpy(&count, rows.data(), item_bytes);
    const size_t kept = std::min<uint64_t>(count, rows.size() / row_bytes - 1);
    return {rows.begin() + row_bytes, rows.begin() + (1 + kept) * row_bytes};
}

// The checksums of the tensors of a run, by their names and orders of axes, and its outputs as lines of text.
struct Stored {
    std::map<std::string, uint32_t> tensors;
    std::vector<std::string> outputs;
};

std::map<size_t, Stored> read_vectors(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + " is not there: export the network without --no-vectors");
    std::map<size_t, Stored> found;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string word, name, order;
        size_t program = 0;
        uint32_t crc = 0;
        line >> word >> program;
        if (word != "tensor") {
            found[program].outputs.push_back(text);
        } else if (line >> order >> crc && std::getline(line >> std::ws, name)) {
            found[program].tensors[order + name] = crc;
        }
    }
    return found;
}

// Runs a program step by step, and compares each tensor that a step completes with what is stored. Names the first step
// that makes another: those behind it read what it has made.
bool are_steps_right(const Network& network, size_t program, const Arrays& arrays, const Stored& stored) {
    size_t compared = 0, next = 0;
    const size_t steps = qconv_network_step_count(network.get(), program);
    for (size_t i = 0; i < steps; ++i) {
        check(qconv_network_run_steps(network.get(), program, i, i + 1, nullptr, arrays.given.data(),
                                      arrays.made.data(), arrays.workspace.address()));
        network.synchronize();
        for (; next < qconv_network_made_count(network.get(), program); ++next) {
            qconv_network_made made;
            check(qconv_network_made_of(network.get(), program, next, arrays.made.data(), arrays.workspace.address(), &made));
            if (made.step > i) break;
            const auto known = stored.tensors.find((made.is_channels_last ? "last" : "model") + std::string(made.tensor));
            if (known == stored.tensors.end()) continue;
            std::vector<char> got(made.bytes);
            check(qconv_network_download(network.get(), got.data(), made.address, made.bytes));
            ++compared;
            if (qconv_crc::of(got.data(), got.size()) == known->second) continue;
            qconv_network_step step;
            check(qconv_network_step_of(network.get(), program, i, &step));
            printf("WRONG  program %zu, step %zu: kernel %s of layer %s makes another %s\n", program, i, step.kernel,
                   step.layer, made.tensor);
            return false;
        }
    }
    if (compared > 0) printf("right  program %zu, %zu tensors of %zu steps\n", program, compared, steps);
    return true;
}

// Compares one output of a program with what is stored, and says so.
bool is_right(const qconv_network_tensor& tensor, size_t program, const Memory& memory, const std::string& line) {
    std::istringstream stored(line);
    std::string word;
    size_t of_program = 0, output = 0, count = 0;
    uint32_t crc = 0;
    stored >> word >> of_program >> output >> crc >> count;
    std::vector<char> got(tensor.bytes);
    memory.download(got.data());
    uint64_t elements = 1;
    for (unsigned axis = 0; axis < tensor.rank; ++axis) elements *= tensor.shape[axis];
    const size_t item = elements > 0 ? tensor.bytes / elements : 1;
    if (tensor.is_counted) got = counted(got, tensor.bytes / tensor.shape[0], item);
    elements = got.size() / item;
    std::string where;
    for (size_t i = 0; i < count; ++i) {
        uint64_t at = 0;
        std::string expected;
        stored >> at >> expected;
        char digits[3];
        std::string found;
        for (size_t byte = 0; byte < item && at < elements; ++byte) {
            snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(got[at * item + byte]));
            found += digits;
        }
        if (where.empty() && found != expected) where = " at element " + std::to_string(at);
    }
    const bool is_stored = stored && word == "vector" && of_program == program;
    const bool right = is_stored && where.empty() && qconv_crc::of(got.data(), got.size()) == crc;
    printf("%-6s program %zu, %s%s\n", right ? "right" : "WRONG", program, tensor.name,
           right ? "" : !is_stored ? ": nothing is stored for it" : where.empty() ? " between the stored elements" : where.c_str());
    return right;
}

int self_test(const Network& network, const std::string& folder) {
    std::map<size_t, Stored> vectors = read_vectors(folder + "/vectors.txt");
    bool right = true;
    for (size_t program = 0; program < network.programs(); ++program) {
        Arrays arrays(network, program);
        fill(network, program, {}, arrays);
        const auto tensors = network.outputs(program);
        // Filled, so that an output that nothing writes is seen. Twice: the second run finds what the first one left.
        for (size_t i = 0; i < tensors.size(); ++i)
            arrays.outputs[i].upload(std::vector<char>(tensors[i].bytes, 0x55).data());
        Stored& stored = vectors[program];
        stored.outputs.resize(tensors.size());
        right = are_steps_right(network, program, arrays, stored) && right;
        for (int time = 0; time < 2; ++time)
            network.run(program, arrays.given.data(), arrays.made.data(), arrays.workspace.address());
        network.synchronize();
        for (size_t i = 0; i < tensors.size(); ++i) right = is_right(tensors[i], program, arrays.outputs[i], stored.outputs[i]) && right;
    }
    return right ? 0 : 1;
}

int run(const Asked& asked) {
    const double begin = now_us();
    const Network network(asked.folder, asked.device.empty() ? nullptr : asked.device.c_str());
    const double open_ms = (now_us() - begin) / 1e3;
    printf("%s on %s\n", network.target().c_str(), network.device().c_str());
    if (asked.self_test) return self_test(network, asked.folder);
    const size_t program = program_for(network, asked);
    Arrays arrays(network, program);
    fill(network, program, asked, arrays);
    for (const auto& tensor : network.inputs(program))
        printf("input  %-20s %s %s\n", tensor.name, tensor.type, shown(shape_of(tensor)).c_str());
    for (const auto& tensor : network.outputs(program))
        printf("output %-20s %s %s\n", tensor.name, tensor.type, shown(shape_of(tensor)).c_str());
    const auto plain = [&] { network.run(program, arrays.given.data(), arrays.made.data(), arrays.workspace.address()); };
    plain();
    network.synchronize();
    if (!asked.output.empty()) write_outputs(network, program, arrays, asked.output);
    Latency latency;
    if (asked.seconds > 0) {
        if (asked.launches) {
            latency = measured(network, asked.seconds, plain);
        } else {
            Graph graph(network, program, arrays.given.data(), arrays.made.data(), arrays.workspace.address());
            latency = measured(network, asked.seconds, [&] { graph.launch(); });
        }
        printf("latency p50 %.1f us, p99 %.1f us, least %.1f us; %.1f runs a second, of %zu\n", latency.p50_us,
               latency.p99_us, latency.least_us, latency.runs_per_s, latency.runs);
    }
    std::vector<StepTime> steps;
    if (asked.profile) {
        steps = profile(network, program, arrays);
        print(steps);
    }
    if (!asked.json.empty()) write_json(asked.json, network, program, open_ms, latency, steps);
    return 0;
}

}  // namespace

int main(int count, char** words) {
    if (std::any_of(words, words + count, [](const std::string& word) { return word == "--help" || word == "-h"; })) {
        fputs(USAGE, stdout);
        return 0;
    }
    try {
        return run(read_words(count, words));
    } catch (const BadWord& bad) {
        fprintf(stderr, "%s\n%s", bad.what(), USAGE);
        return 2;
    } catch (const std::exception& error) {
        fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
