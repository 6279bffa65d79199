#include "qconv_shipped.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "qconv_crc.h"

namespace qconv_shipped {

namespace {

constexpr const char* FORMAT = "qconv-network-1";
constexpr const char* LIST = "network.txt";
constexpr const char* PLAN_FORMAT = "qconv-plan-2";
constexpr const char* AGAIN = "; copy the folder again, or export it anew";
// Arguments are built on the stack of a run.
constexpr size_t MOST_ARGUMENT_BYTES = 4096;

uint32_t crc_of(Bytes bytes) { return qconv_crc::of(bytes.first, bytes.count); }

[[noreturn]] void damaged(const std::string& text) { throw Failure{QCONV_NETWORK_BAD_FOLDER, text + AGAIN}; }

// Returns damaged text as a sentence can show it: short, and in ASCII.
std::string shown(const std::string& text) {
    std::string made = text.substr(0, 40);
    for (char& c : made)
        if (c < 32 || c > 126) c = '?';
    return made;
}

// Words of lines. Reading beyond the end, or something else than was asked for, is damage.
class Words {
  public:
    Words(Bytes text, std::string file)
        : at_(reinterpret_cast<const char*>(text.first)), end_(at_ + text.count), file_(std::move(file)) {}

    // Goes to the next line, and returns its first word.
    std::string line() {
        if (number_ > 0) {
            if (at_ == end_ || *at_ != '\n') bad("has more words than it should");
            ++at_;
        }
        ++number_;
        return word();
    }

    std::string word() {
        if (!starts_line_ && (at_ == end_ || *at_++ != ' ')) bad("has too few words");
        const char* const begin = at_;
        while (at_ != end_ && *at_ != ' ' && *at_ != '\n') ++at_;
        if (at_ == begin) bad("has an empty word");
        starts_line_ = at_ != end_ && *at_ == '\n';
        return std::string(begin, at_);
    }

    bool is_line_over() const { return at_ == end_ || *at_ == '\n'; }

    uint64_t number(uint64_t most = UINT64_MAX) { return number_in(word(), most); }

    uint64_t number_in(const std::string& text, uint64_t most = UINT64_MAX) const {
        if (text.empty()) bad("has a place without a number");
        uint64_t value = 0;
        for (char digit : text) {
            if (digit < '0' || digit > '9') bad("has " + shown(text) + " where a number should be");
            const uint64_t next = value * 10 + static_cast<uint64_t>(digit - '0');
            if (value > UINT64_MAX / 10 || next < value * 10) bad("has the number " + shown(text) + ", which is too large");
            value = next;
        }
        if (value > most) bad("has " + text + "; at most " + std::to_string(most) + " makes sense there");
        return value;
    }

    uint32_t small(uint64_t most = UINT32_MAX) { return static_cast<uint32_t>(number(most)); }

    int64_t signed_number() {
        const char* const mark = at_ + (starts_line_ ? 0 : 1);
        const bool is_negative = mark < end_ && *mark == '-';
        if (!is_negative) return static_cast<int64_t>(number(INT64_MAX));
        const std::string text = word();
        Words rest({reinterpret_cast<const unsigned char*>(text.data()) + 1, text.size() - 1}, file_);
        rest.starts_line_ = true;
        rest.number_ = number_;
        return -static_cast<int64_t>(rest.number(INT64_MAX));
    }

    bool flag() { return number(1) == 1; }

    // A name between quotes, with %XX for other bytes.
    std::string name() {
        const std::string text = word();
        if (text.size() < 2 || text.front() != '"' || text.back() != '"') bad("has " + shown(text) + " where a name should be");
        std::string made;
        for (size_t i = 1; i + 1 < text.size(); ++i) {
            if (text[i] != '%') {
                made += text[i];
                continue;
            }
            if (i + 3 >= text.size()) bad("has a name with half a byte");
            made += static_cast<char>(nibble(text[i + 1]) * 16 + nibble(text[i + 2]));
            i += 2;
        }
        return made;
    }

    // Bytes in hexadecimal, with .N. for N zeros; "-" for none.
    std::vector<unsigned char> bytes(size_t most) {
        const std::string text = word();
        std::vector<unsigned char> made;
        if (text == "-") return made;
        for (size_t i = 0; i < text.size();) {
            size_t zeros = 0;
            if (text[i] == '.') {
                while (++i < text.size() && text[i] != '.') {
                    if (text[i] < '0' || text[i] > '9') bad("has " + shown(text.substr(i, 1)) + " in a number of zeros");
                    zeros = std::min(zeros * 10 + static_cast<size_t>(text[i] - '0'), most + 1);
                }
                if (i++ == text.size()) bad("has a number of zeros without an end");
                made.resize(made.size() + zeros);
            } else {
                if (i + 1 == text.size()) bad("has half a byte");
                made.push_back(static_cast<unsigned char>(nibble(text[i]) * 16 + nibble(text[i + 1])));
                i += 2;
            }
            if (made.size() > most) bad("has more than " + std::to_string(most) + " bytes where fewer make sense");
        }
        return made;
    }

    template <typename Number>
    void list(Number* into, size_t most) {
        const size_t count = number(most);
        for (size_t i = 0; i < count; ++i) into[i] = static_cast<Number>(signed_number());
    }

    [[noreturn]] void bad(const std::string& what) const {
        damaged(file_ + " is damaged: line " + std::to_string(number_) + " " + what);
    }

  private:
    int nibble(char digit) const {
        if (digit >= '0' && digit <= '9') return digit - '0';
        if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
        if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
        bad("has " + shown({digit}) + " where a hexadecimal digit should be");
    }

    const char *at_, *end_;
    std::string file_;
    size_t number_ = 0;
    bool starts_line_ = true;
};

uint64_t type_bytes(const std::string& type, const Words& words) {
    static const std::map<std::string, uint64_t> known = {
        {"bool", 1},    {"int8", 1},     {"uint8", 1},   {"int16", 2},  {"uint16", 2},  {"float16", 2},
        {"bfloat16", 2}, {"int32", 4},   {"uint32", 4},  {"float32", 4}, {"int64", 8},  {"uint64", 8},
        {"float64", 8}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};
    const auto found = known.find(type);
    if (found == known.end()) words.bad("has the type " + shown(type) + ", which this library does not know");
    return found->second;
}

class PlanReader {
  public:
    PlanReader(Bytes text, Bytes kernels, Bytes weights)
        : words_(text, "its plan"), kernels_(kernels), weights_(weights) {}

    Plan read() {
        const std::string format = words_.line();
        if (format != PLAN_FORMAT)
            throw Failure{QCONV_NETWORK_BAD_FOLDER,
                          "its plan has the format " + shown(format) + ", and this library reads " + PLAN_FORMAT +
                              ": build the library of the folder's own version"};
        expect(words_.line(), "target");
        plan_.target = words_.word();
        plan_.warp_size = words_.small(1024);
        std::string word = words_.line();
        for (; word == "kernel"; word = words_.line()) plan_.kernels.push_back(span(kernels_, "the kernels"));
        for (; word == "constant"; word = words_.line()) constant();
        for (; word == "state"; word = words_.line()) plan_.states.push_back(words_.number(MOST_BYTES));
        expect(word, "setup");
        word = steps(plan_.setup, nullptr);
        while (word == "program") word = program();
        expect(word, "end");
        if (plan_.programs.empty()) words_.bad("ends a plan without programs");
        return std::move(plan_);
    }

  private:
    static constexpr uint64_t MOST_BYTES = uint64_t{1} << 48;

    void expect(const std::string& word, const char* wanted) {
        if (word != wanted) words_.bad("begins with " + shown(word) + ", and should with " + wanted);
    }

    Bytes span(Bytes of, const char* what) {
        const uint64_t offset = words_.number(), bytes = words_.number();
        if (offset > of.count || bytes > of.count - offset) words_.bad(std::string("reaches beyond ") + what);
        return {of.first + offset, bytes};
    }

    void constant() {
        const Bytes bytes = span(weights_, "the weights");
        const bool is_resident = words_.flag();
        plan_.constants.push_back({static_cast<uint64_t>(bytes.first - weights_.first), bytes.count, is_resident});
    }

    std::string program() {
        plan_.programs.push_back({words_.number(MOST_BYTES), {}, {}, {}, {}, {}});
        Program& made = plan_.programs.back();
        std::string word = words_.line();
        for (; word == "input"; word = words_.line()) made.inputs.push_back(port());
        for (; word == "output"; word = words_.line()) made.outputs.push_back(port());
        const Program& first = plan_.programs.front();
        if (made.inputs.size() != first.inputs.size() || made.outputs.size() != first.outputs.size())
            words_.bad("ends the ports of a program with other numbers of them than the first program has");
        return steps(made.steps, &made, word);
    }

    Port port() {
        Port made;
        made.name = words_.name();
        made.type = words_.word();
        made.bytes = type_bytes(made.type, words_);
        made.is_counted = words_.flag();
        const size_t rank = words_.number(8);
        for (size_t i = 0; i < rank; ++i) {
            made.shape.push_back(words_.number(MOST_BYTES));
            made.bytes *= made.shape.back();
            if (made.bytes > MOST_BYTES) words_.bad("has an array of more bytes than there are addresses");
        }
        return made;
    }

    // Reads steps, and returns the first word of the line behind them.
    std::string steps(std::vector<Step>& into, Program* of, std::string word = "") {
        if (word.empty()) word = words_.line();
        for (;; word = words_.line()) {
            if (word == "launch") {
                add(into, launch());
            } else if (word == "pointers" || word == "map") {
                if (into.empty() || into.back().kind != Kind::launch) words_.bad("has an argument of no launch");
                word == "map" ? map(into.back(), of) : pointers(into.back(), of);
            } else if (word == "fill" || word == "copy" || word == "gather") {
                add(into, move(word, of));
            } else if (word == "call") {
                if (of == nullptr) words_.bad("is a call that no run makes");
                of->calls.push_back(into.size());
                add(into, call(*of));
            } else if (word == "made") {
                if (into.empty() || of == nullptr) words_.bad("is a tensor that no step of a run completes");
                of->made.push_back(made(*of, into.size() - 1));
            } else {
                return word;
            }
        }
    }

    Made made(const Program& of, size_t step) {
        Made made;
        made.name = words_.name();
        made.is_channels_last = words_.flag();
        made.step = step;
        made.place = place(&of, 0);
        if (made.place.space != Space::arena && made.place.space != Space::output)
            words_.bad("is a tensor that no run writes");
        made.bytes = words_.number(MOST_BYTES);
        check_bytes(made.place, &of, made.bytes);
        return made;
    }

    void add(std::vector<Step>& into, Step step) {
        step.number = plan_.step_count++;
        into.push_back(std::move(step));
    }

    Step launch() {
        Step made;
        made.kind = Kind::launch;
        if (plan_.kernels.empty()) words_.bad("launches a kernel of a plan without kernels");
        made.kernel = words_.small(plan_.kernels.size() - 1);
        made.symbol = words_.word();
        for (uint32_t& extent : made.grid) extent = words_.small(INT32_MAX);
        made.threads = words_.small(1024);
        made.smem_bytes = words_.small(1 << 20);
        made.cluster = words_.small(16);
        made.overlap = words_.flag();
        made.arguments = words_.bytes(MOST_ARGUMENT_BYTES);
        made.layer = words_.name();
        return made;
    }

    Step call(const Program& of) {
        Step made;
        made.kind = Kind::call;
        made.symbol = words_.name();
        for (auto* const places : {&made.inputs, &made.outputs}) {
            const size_t count = words_.number(MOST_CALL_ARRAYS);
            for (size_t i = 0; i < count; ++i) {
                places->push_back(place(&of, 0));
                check_bytes(places->back(), &of, words_.number(MOST_BYTES));
            }
        }
        for (const Place& place : made.outputs)
            if (place.space != Space::arena && place.space != Space::output) words_.bad("writes what no run writes");
        made.layer = words_.name();
        return made;
    }

    void pointers(Step& of, const Program* program) {
        do {
            const uint32_t offset = argument(of, sizeof(uint64_t), alignof(uint64_t));
            of.pointers.push_back({offset, place(program, 0)});
        } while (!words_.is_line_over());
    }

    uint32_t argument(const Step& of, size_t bytes, size_t alignment) {
        const uint32_t offset = words_.small();
        if (offset % alignment != 0) words_.bad("has an argument between two others");
        if (offset > of.arguments.size() || bytes > of.arguments.size() - offset)
            words_.bad("lies beyond the arguments of its launch");
        return offset;
    }

    void map(Step& of, const Program* program) {
        Map made = {};
        made.offset = argument(of, sizeof made.described, 64);
        made.place = place(program, 0);
        if (plan_.target.compare(0, 3, "cpu") == 0) {
            const std::vector<unsigned char> described = words_.bytes(sizeof made.described);
            if (described.size() != sizeof made.described) words_.bad("has a tensor map of another size");
            memcpy(made.described, described.data(), described.size());
        } else {
            made.type = words_.small();
            made.swizzle = words_.small();
            made.l2_promotion = words_.small();
            made.is_im2col = words_.flag();
            made.channels = words_.small();
            made.pixels = words_.small();
            made.rank = words_.small(5);
            for (size_t i = 0; i < made.rank; ++i) made.dims[i] = words_.number();
            words_.list(made.strides, 4);
            words_.list(made.box, 5);
            words_.list(made.element_strides, 5);
            words_.list(made.lower, 3);
            words_.list(made.upper, 3);
        }
        of.maps.push_back(made);
    }

    Step move(const std::string& word, const Program* of) {
        Step made;
        made.kind = word == "fill" ? Kind::fill : word == "copy" ? Kind::copy : Kind::gather;
        made.symbol = word;
        made.to = place(of, 0);
        if (made.kind != Kind::fill) made.from = place(of, 0);
        if (made.kind == Kind::gather) {
            made.item_bytes = words_.small(16);
            made.bytes = made.item_bytes;
            const size_t rank = words_.number(16);
            for (size_t i = 0; i < rank; ++i) {
                made.shape.push_back(words_.number(MOST_BYTES));
                made.bytes *= made.shape.back();
                if (made.bytes > MOST_BYTES) words_.bad("gathers more bytes than there are addresses");
            }
            if (words_.number(16) != rank) words_.bad("has other numbers of extents and of strides");
            for (size_t i = 0; i < rank; ++i) made.strides.push_back(words_.signed_number());
            check_gather(made, of);
        } else {
            made.bytes = words_.number(MOST_BYTES);
            if (made.kind == Kind::fill) made.byte = words_.small(255);
            else check_bytes(made.from, of, made.bytes);
        }
        check_bytes(made.to, of, made.bytes);
        made.layer = words_.name();
        return made;
    }

    void check_gather(const Step& made, const Program* of) {
        if (made.item_bytes == 0 || (made.item_bytes & (made.item_bytes - 1)) != 0) words_.bad("has elements of no size");
        // Extents and strides are below 2^48: the sums of their products need more than 64 bits.
        __int128 low = 0, high = made.item_bytes;
        for (size_t i = 0; i < made.shape.size(); ++i) {
            if (made.shape[i] == 0) words_.bad("gathers nothing");
            const __int128 reach = static_cast<__int128>(made.shape[i] - 1) * made.strides[i];
            (reach < 0 ? low : high) += reach;
        }
        const uint64_t bytes = bytes_of(made.from, of);
        if (low < 0 || high > static_cast<__int128>(bytes - made.from.offset)) words_.bad("gathers beyond an array");
    }

    Place place(const Program* of, uint64_t bytes) {
        static const std::map<char, Space> spaces = {{'i', Space::input},
                                                     {'o', Space::output},
                                                     {'c', Space::constant},
                                                     {'s', Space::state},
                                                     {'a', Space::arena}};
        const std::string word = words_.word();
        const auto found = spaces.find(word[0]);
        if (found == spaces.end()) words_.bad("has the place " + shown(word) + ", which there is not");
        const size_t plus = std::min(word.find('+'), word.size());
        Place made = {found->second, static_cast<uint32_t>(words_.number_in(word.substr(1, plus - 1), UINT32_MAX)), 0};
        if (plus < word.size()) made.offset = words_.number_in(word.substr(plus + 1));
        check_bytes(made, of, bytes);
        return made;
    }

    void check_bytes(const Place& place, const Program* of, uint64_t bytes) {
        const uint64_t whole = bytes_of(place, of);
        if (place.offset > whole || bytes > whole - place.offset) words_.bad("lies beyond an array");
    }

    // Returns the size of the array that a place lies in. The setup, of no program, has neither arrays of the caller
    // nor an arena.
    uint64_t bytes_of(const Place& place, const Program* of) {
        const bool is_of_a_run =
            place.space == Space::input || place.space == Space::output || place.space == Space::arena;
        if (is_of_a_run && of == nullptr) words_.bad("is of the setup, and has a place of a run");
        size_t count = 1;
        if (place.space == Space::input) count = of->inputs.size();
        if (place.space == Space::output) count = of->outputs.size();
        if (place.space == Space::constant) count = plan_.constants.size();
        if (place.space == Space::state) count = plan_.states.size();
        if (place.number >= count) words_.bad("has the number of an array that there is not");
        if (place.space == Space::input) return of->inputs[place.number].bytes;
        if (place.space == Space::output) return of->outputs[place.number].bytes;
        if (place.space == Space::state) return plan_.states[place.number];
        if (place.space == Space::arena) return of->arena_bytes;
        if (of != nullptr && !plan_.constants[place.number].is_resident)
            words_.bad("reads a constant that is freed when the network is open");
        return plan_.constants[place.number].bytes;
    }

    Words words_;
    Bytes kernels_, weights_;
    Plan plan_;
};

}  // namespace

Mapped::Mapped(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) damaged(path + " cannot be opened (" + strerror(errno) + ")");
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        ::close(file);
        damaged(path + " is no file");
    }
    bytes_.count = static_cast<size_t>(about.st_size);
    void* memory = bytes_.count == 0 ? nullptr : mmap(nullptr, bytes_.count, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) damaged(path + " cannot be mapped (" + strerror(errno) + ")");
    bytes_.first = static_cast<const unsigned char*>(memory);
}

Mapped::~Mapped() {
    if (bytes_.count > 0) munmap(const_cast<unsigned char*>(bytes_.first), bytes_.count);
}

Folder::Folder(const std::string& path) : path_(path) {
    struct stat about;
    if (stat(path.c_str(), &about) != 0)
        throw Failure{QCONV_NETWORK_BAD_FOLDER, "the folder " + path + " cannot be opened (" + strerror(errno) + "): give its path"};
    if (stat(path_of(LIST).c_str(), &about) != 0)
        throw Failure{QCONV_NETWORK_BAD_FOLDER,
                      path + " has no " + LIST + ": give a folder that qconv-tune export or build has written for a network"};
    const Mapped list(path_of(LIST));
    const std::string whole(reinterpret_cast<const char*>(list.bytes().first), list.bytes().count);
    const std::string format = whole.substr(0, whole.find('\n'));
    if (format != FORMAT && format.compare(0, 14, "qconv-network-") == 0)
        throw Failure{QCONV_NETWORK_BAD_FOLDER, path + " has the format " + shown(format) + ", and this library reads " + FORMAT +
                                                    ": build the library of the folder's own version"};
    // The last line has the checksum of the lines before it.
    const size_t last = whole.rfind("\ncrc ");
    if (last == std::string::npos) damaged(path_of(LIST) + " is damaged: it has no checksum");
    const Bytes sealed = {list.bytes().first, last + 1};
    Words words(list.bytes(), path_of(LIST));
    if (words.line() != FORMAT) words.bad(std::string("should be ") + FORMAT);
    std::string word = words.line();
    for (; word == "target"; word = words.line()) targets_.push_back(words.word());
    for (; word == "file"; word = words.line()) {
        const std::string name = words.name();
        const uint64_t bytes = words.number();
        files_[name] = {bytes, words.small()};
    }
    if (word != "crc") words.bad("begins with " + shown(word) + ", and should with crc");
    if (words.small() != crc_of(sealed)) damaged(path_of(LIST) + " is damaged: it is not what its checksum is of");
    if (targets_.empty()) damaged(path_of(LIST) + " names no target");
}

std::unique_ptr<Mapped> Folder::open(const std::string& file) const {
    const auto found = files_.find(file);
    if (found == files_.end()) damaged(path_of(LIST) + " does not list " + file);
    auto made = std::make_unique<Mapped>(path_of(file));
    const uint64_t bytes = made->bytes().count;
    if (bytes != found->second.bytes)
        damaged(path_of(file) + " has " + std::to_string(bytes) + " bytes, and " + std::to_string(found->second.bytes) +
                " were written");
    if (crc_of(made->bytes()) != found->second.crc) damaged(path_of(file) + " is damaged: its checksum is another");
    return made;
}

Plan read_plan(Bytes text, Bytes kernels, Bytes weights) { return PlanReader(text, kernels, weights).read(); }

}  // namespace qconv_shipped
