// The CPU: the kernels and the runtime that they call are one shared object of the folder.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

#include "cpu_runtime.h"
#include "qconv_loaded.h"

namespace qconv_shipped {

namespace {

// Loads a shared object, for good. The dynamic linker knows objects by their names, and would give the one that lay there
// before a folder was replaced: another file is loaded by another spelling of its path.
void* loaded(const std::string& path) {
    using File = std::pair<dev_t, ino_t>;
    static std::mutex alone;
    static std::map<void*, File> known;
    const std::lock_guard<std::mutex> lock(alone);
    struct stat about = {};
    stat(path.c_str(), &about);
    const File file = {about.st_dev, about.st_ino};
    for (std::string spelled = path;; spelled.insert(spelled.rfind('/'), "/.")) {
        void* const library = dlopen(spelled.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr)
            throw Failure{QCONV_NETWORK_NO_TARGET, std::string(dlerror()) + "; export the folder on this kind of machine"};
        if (known.emplace(library, file).first->second == file) return library;
        dlclose(library);
    }
}

class Cpu {
  public:
    // The shared object stays loaded: a thread of its runtime may outlive the network.
    struct Code {
        decltype(&qconv_cpu_launch) launch;
        std::vector<qconv_cpu_entry_t> entries;  // by the numbers of steps
        uint32_t warp_size;
    };

    explicit Cpu(int index) {
        if (index != 0)
            throw Failure{QCONV_NETWORK_NO_DEVICE, "there is no cpu:" + std::to_string(index) + ": its only one is cpu"};
    }

    std::string name() const { return "cpu"; }
    int rank(const char* target) const { return strncmp(target, "cpu", 3) == 0 ? 1 : 0; }

    Code load(const Plan& plan, const std::string& path) const {
        void* const library = loaded(path);
        Code made = {};
        made.warp_size = plan.warp_size;
        made.launch = reinterpret_cast<decltype(made.launch)>(function(library, "qconv_cpu_launch"));
        made.entries.resize(plan.step_count);
        plan.each_step([&](const Step& step) {
            if (step.kind == Kind::launch)
                made.entries[step.number] = reinterpret_cast<qconv_cpu_entry_t>(function(library, step.symbol + "_entry"));
        });
        return made;
    }

    void launch(const Code& code, const Step& step, void* arguments, qconv_network_stream stream) const {
        check(stream);
        const qconv_cpu_grid grid = {code.entries[step.number],
                                     arguments,
                                     nullptr,
                                     step.smem_bytes,
                                     {step.grid[0], step.grid[1], step.grid[2]},
                                     step.threads,
                                     step.cluster,
                                     code.warp_size,
                                     0,
                                     0};
        char message[1024];
        if (code.launch(&grid, message, sizeof message) != 0)
            throw Failure{QCONV_NETWORK_LAUNCH_FAILED, step.symbol + ": " + message};
    }

    // Writes the description that the runtime reads, which begins with the address.
    void encode(const Map& map, uint64_t address, unsigned char* into) const {
        memcpy(into, map.described, sizeof map.described);
        memcpy(into, &address, sizeof address);
    }

    void fill(void* to, int byte, uint64_t bytes, qconv_network_stream stream) const {
        check(stream);
        memset(to, byte, bytes);
    }
    void copy(void* to, const void* from, uint64_t bytes, qconv_network_stream stream) const {
        check(stream);
        memcpy(to, from, bytes);
    }

    // Copies elements at any strides into a contiguous array, the innermost axis last.
    void gather(const Step& step, char* to, const char* from) const { gather(step, 0, to, from); }

    void* allocate(uint64_t bytes) const {
        const uint64_t whole = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
        void* const memory = whole < bytes ? nullptr : aligned_alloc(ALIGNMENT, whole);  // the largest sizes wrap
        if (memory == nullptr)
            throw Failure{QCONV_NETWORK_NO_MEMORY, "no memory for " + std::to_string(bytes) + " bytes: free some"};
        return memory;
    }
    void release(void* memory) const { free(memory); }
    void upload(void* to, const void* from, uint64_t bytes) const { memcpy(to, from, bytes); }
    void download(void* to, const void* from, uint64_t bytes) const { memcpy(to, from, bytes); }
    void synchronize(qconv_network_stream stream) const { check(stream); }

    // The CPU has no graphs: the work runs again.
    class Graph {
      public:
        void record(Cpu&, std::function<void(qconv_network_stream)> work) { work_ = std::move(work); }
        void launch(Cpu&, qconv_network_stream stream) const { work_(stream); }

      private:
        std::function<void(qconv_network_stream)> work_;
    };

  private:
    static constexpr uint64_t ALIGNMENT = 256;

    static void check(qconv_network_stream stream) {
        if (stream != nullptr) refuse("a stream was given, but the CPU has none: give null");
    }

    static void* function(void* library, const std::string& name) {
        void* const found = dlsym(library, name.c_str());
        if (found == nullptr)
            throw Failure{QCONV_NETWORK_BAD_FOLDER,
                          "the file of the kernels has no " + name + ": copy the folder again, or export it anew"};
        return found;
    }

    char* gather(const Step& step, size_t axis, char* to, const char* from) const {
        if (axis == step.shape.size()) {
            memcpy(to, from, step.item_bytes);
            return to + step.item_bytes;
        }
        for (uint64_t i = 0; i < step.shape[axis]; ++i, from += step.strides[axis]) to = gather(step, axis + 1, to, from);
        return to;
    }
};

}  // namespace

const Vendor cpu = {"cpu", open_device<Cpu>};

}  // namespace qconv_shipped
