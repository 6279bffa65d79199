// Tensor memory of a block: 128 lanes of 512 32-bit columns, the products of bytes (tcgen05.mma, kind::i8) that
// accumulate there, and the loads of sums to registers. Private to cpu_runtime.cpp.
//
// In an early launch, products and loads take effect when they are issued. In a late one, products wait in
// order until no thread can proceed without them, and the arrival of a commit waits until a thread waits for
// it; a load returns its values when the thread waits for loads, and poison before.
//
// Stricter than PTX: one thread per block issues all products; after any wait, at an mbarrier or at the block's
// barrier, a thread needs tcgen05.fence::after_thread_sync before it uses tensor memory again; and before any
// arrival, a thread that has used tensor memory needs tcgen05.fence::before_thread_sync.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "cpu_arena.h"
#include "cpu_context.h"
#include "cpu_launch.h"

namespace {

constexpr unsigned kTensorLanes = 128, kTensorColumns = 512, kLeastColumns = 32;
constexpr unsigned kProductBytes = 32;  // of the reduction, per product

// The operands of tcgen05.mma: the address of the sums, the descriptors of both operands, and the
// instruction's.
struct Product {
    unsigned sums;
    uint64_t a, b;
    unsigned kind;
    bool adds;
};

// An operand in shared memory: rows of 128 or 64 bytes in groups of eight, with their 16-byte chunks swizzled
// by that number of bytes.
struct Factor {
    const char* shared;
    uint64_t descriptor;

    const char* why_not() const {
        const unsigned version = descriptor >> 46 & 3, layout = descriptor >> 61, between = descriptor >> 49 & 15;
        if (version != 1) return "a factor whose descriptor is not of version 1";
        if (layout != 2 && layout != 4) return "a factor that is not swizzled by 128 or 64 bytes, which is not emulated";
        if (between != 0) return "a factor that begins within what the swizzle repeats after";
        return nullptr;
    }
    size_t row_bytes() const { return descriptor >> 61 == 2 ? 128 : 64; }
    size_t offset(unsigned row, unsigned chunk) const {
        const size_t first = (descriptor & 0x3fff) * 16, eights = (descriptor >> 32 & 0x3fff) * 16;
        const size_t linear = first + row / 8 * eights + row % 8 * row_bytes() + chunk * 16;
        return linear ^ (linear >> 7 & (row_bytes() / 16 - 1)) * 16;
    }
    const char* at(unsigned row, unsigned chunk) const { return shared + offset(row, chunk); }
};

// The instruction descriptor of kind::i8.
struct Kind {
    unsigned bits;

    unsigned rows() const { return (bits >> 24 & 31) * 16; }
    unsigned columns() const { return (bits >> 17 & 63) * 8; }
    bool a_is_signed() const { return bits >> 7 & 1; }
    bool b_is_signed() const { return bits >> 10 & 1; }
    const char* why_not() const {
        constexpr unsigned known = 3u << 4 | 1u << 7 | 1u << 10 | 63u << 17 | 31u << 24;
        if ((bits & ~known) != 0) return "an instruction of another kind than plain products of bytes";
        if ((bits >> 4 & 3) != 2) return "products of bytes whose sums are not of 32-bit integers";
        if (rows() != kTensorLanes) return "products of other than 128 rows, which are not emulated";
        if (columns() == 0 || columns() % 16 != 0 || columns() > 256)
            return "products of 128 rows have 16 to 256 columns, in sixteens";
        return nullptr;
    }
};

class TensorMemory {
  public:
    ~TensorMemory() { end(); }
    void begin(const Shared& shared, bool late);
    void end();

    // These return null, or an error message.
    const char* allocate(unsigned thread, unsigned columns, unsigned long chance, unsigned* address);
    const char* relinquish();
    const char* deallocate(unsigned thread, unsigned address, unsigned columns);
    template <class View>
    const char* multiply(unsigned thread, const Product& product, View view);
    // Requests an arrival when all products so far are done: at once, or through `next`.
    const char* commit(unsigned thread, void* mbarrier);
    const char* load(unsigned thread, unsigned address, int* to, unsigned count);
    void wait_for_loads(unsigned thread);
    void fence(unsigned thread, bool after);
    const char* arrive(unsigned thread) const;
    void synchronize(unsigned thread);

    // Performs pending products in order, up to a commit whose mbarrier has waiting threads. Returns that
    // mbarrier, or null. Keeps the arrivals that no thread waits for.
    template <class Waited, class View>
    void* next(Waited waited, View view);
    Observer& observer() { return observer_; }
    const char* left_behind() const;

  private:
    struct Operation {
        Product product;
        void* mbarrier;  // for a commit; null: a product
    };
    struct Load {
        const int* from;
        int* to;
        unsigned count;
    };
    struct OfThread {
        bool has_used = false;  // tensor memory, without a fence since
        bool has_met = false;   // other threads, without a fence since
        std::vector<Load> loads{};
    };

    const char* use(unsigned thread);
    bool exists(unsigned column, unsigned count) const {
        return columns_ > 0 && column >= first_ && column + count <= first_ + columns_;
    }
    int* cell(unsigned lane, unsigned column) const { return cells_ + lane * kTensorColumns + column; }
    template <class View>
    void perform(const Product& product, View view);

    Shared shared_{};
    bool late_ = false, relinquished_ = false;
    int* cells_ = nullptr;
    unsigned first_ = 0, columns_ = 0;
    int issuer_ = -1;
    std::deque<Operation> queue_;
    std::vector<void*> owed_;  // mbarriers with outstanding arrivals
    std::vector<OfThread> threads_;
    std::vector<int> of_a_, of_b_;  // operands of a product, row by row
    Observer observer_{};
};

void TensorMemory::begin(const Shared& shared, bool late) {
    shared_ = shared;
    late_ = late;
    end();
}

void TensorMemory::end() {
    if (cells_ == nullptr) return;
    munmap(cells_, kTensorLanes * kTensorColumns * sizeof(int));
    cells_ = nullptr;
    drop_observer(observer_);
    observer_ = Observer{};
    columns_ = 0;
    relinquished_ = false;
    issuer_ = -1;
    queue_.clear();
    owed_.clear();
    threads_.clear();
}

// The first column is random, and the contents are poison.
const char* TensorMemory::allocate(unsigned thread, unsigned columns, unsigned long chance, unsigned* address) {
    const Unobserved unobserved;
    if (shared_.blocks != 1) return "tensor memory of a block of a cluster, which is not emulated";
    if (columns < kLeastColumns || columns > kTensorColumns || (columns & (columns - 1)) != 0)
        return "an allocation of tensor memory of other than 32, 64, 128, 256 or 512 columns";
    if (relinquished_) return "an allocation of tensor memory by a block that has relinquished it";
    if (columns_ != 0) return "a second allocation of tensor memory, which is not emulated";
    constexpr size_t bytes = kTensorLanes * kTensorColumns * sizeof(int);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return "no memory for the tensor memory of a block";
    cells_ = static_cast<int*>(memory);
    memset(cells_, 0xCD, bytes);
    threads_.resize(kMaxThreads);
    columns_ = columns;
    first_ = static_cast<unsigned>(chance % ((kTensorColumns - columns) / kLeastColumns + 1)) * kLeastColumns;
    *address = first_;
    return use(thread);
}

const char* TensorMemory::relinquish() {
    if (columns_ == 0) return "nothing of tensor memory is allocated when it is relinquished";
    relinquished_ = true;
    return nullptr;
}

const char* TensorMemory::deallocate(unsigned thread, unsigned address, unsigned columns) {
    if (columns_ == 0 || address != first_ || columns != columns_)
        return "tensor memory is freed that is not what was allocated";
    if (!queue_.empty()) return "tensor memory is freed while products are under way";
    const char* const wrong = use(thread);
    columns_ = 0;
    return wrong;
}

const char* TensorMemory::use(unsigned thread) {
    threads_[thread].has_used = true;
    if (!threads_[thread].has_met) return nullptr;
    return "tensor memory is used behind a wait without tcgen05.fence::after_thread_sync between";
}

void TensorMemory::fence(unsigned thread, bool after) {
    if (threads_.empty()) return;
    (after ? threads_[thread].has_met : threads_[thread].has_used) = false;
}

const char* TensorMemory::arrive(unsigned thread) const {
    if (threads_.empty()) return nullptr;
    if (!threads_[thread].loads.empty()) return "an arrival while loads from tensor memory are under way";
    if (!threads_[thread].has_used) return nullptr;
    return "an arrival behind a use of tensor memory without tcgen05.fence::before_thread_sync between";
}

void TensorMemory::synchronize(unsigned thread) {
    if (!threads_.empty()) threads_[thread].has_met = true;
}

template <class View>
const char* TensorMemory::multiply(unsigned thread, const Product& product, View view) {
    const Kind kind{product.kind};
    const Factor a{shared_.of(0), product.a}, b{shared_.of(0), product.b};
    for (const char* const wrong : {kind.why_not(), a.why_not(), b.why_not()})
        if (wrong != nullptr) return wrong;
    if (product.sums >> 16 != 0 || !exists(product.sums & 0xffff, kind.columns()))
        return "sums outside of what is allocated of tensor memory";
    if (a.offset(kTensorLanes - 1, 1) >= shared_.bytes || b.offset(kind.columns() - 1, 1) >= shared_.bytes)
        return "a factor outside of shared memory";
    if (issuer_ >= 0 && issuer_ != static_cast<int>(thread)) return "products of several threads of a block";
    issuer_ = static_cast<int>(thread);
    if (const char* const wrong = use(thread)) return wrong;
    happens_before(&observer_);
    const Unobserved unobserved;
    if (late_) queue_.push_back({product, nullptr});
    else perform(product, view);
    return nullptr;
}

// A commit includes a fence before its arrival.
const char* TensorMemory::commit(unsigned thread, void* mbarrier) {
    if (issuer_ != static_cast<int>(thread)) return "a commit by a thread that has asked for no products";
    happens_before(&observer_);
    const Unobserved unobserved;
    if (late_) queue_.push_back({{}, mbarrier});
    return nullptr;
}

template <class Waited, class View>
void* TensorMemory::next(Waited waited, View view) {
    const Unobserved unobserved;
    for (void*& owed : owed_) {
        if (!waited(owed)) continue;
        std::swap(owed, owed_.back());
        void* const mbarrier = owed_.back();
        owed_.pop_back();
        return mbarrier;
    }
    while (!queue_.empty()) {
        const Operation operation = queue_.front();
        queue_.pop_front();
        if (operation.mbarrier == nullptr) perform(operation.product, view);
        else if (waited(operation.mbarrier)) return operation.mbarrier;
        else owed_.push_back(operation.mbarrier);
    }
    return nullptr;
}

// Adds modulo 2^32.
template <class View>
void TensorMemory::perform(const Product& product, View view) {
    const Kind kind{product.kind};
    const Factor a{shared_.of(0), product.a}, b{shared_.of(0), product.b};
    const unsigned columns = kind.columns(), first = product.sums & 0xffff;
    act_as(observer_, "products in tensor memory", [&] {
        for (unsigned chunk = 0; chunk < 2; ++chunk) {
            for (unsigned row = 0; row < kTensorLanes; ++row) observe_read(a.at(row, chunk), 16);
            for (unsigned row = 0; row < columns; ++row) observe_read(b.at(row, chunk), 16);
        }
        for (unsigned lane = 0; lane < kTensorLanes; ++lane)
            observe_write(cell(lane, first), columns * sizeof(int));
    });
    const auto take = [&](const Factor& factor, unsigned rows, bool is_signed, std::vector<int>& to) {
        to.clear();
        for (unsigned row = 0; row < rows; ++row)
            for (unsigned byte = 0; byte < kProductBytes; ++byte) {
                const char value = view(factor.at(row, byte / 16))[byte % 16];
                to.push_back(is_signed ? static_cast<signed char>(value) : static_cast<unsigned char>(value));
            }
    };
    take(a, kTensorLanes, kind.a_is_signed(), of_a_);
    take(b, columns, kind.b_is_signed(), of_b_);
    for (unsigned lane = 0; lane < kTensorLanes; ++lane)
        for (unsigned column = 0; column < columns; ++column) {
            const int* const row = &of_a_[lane * kProductBytes];
            const int* const other = &of_b_[column * kProductBytes];
            int sum = 0;
            for (unsigned byte = 0; byte < kProductBytes; ++byte) sum += row[byte] * other[byte];
            int& of_cell = *cell(lane, first + column);
            const unsigned before = product.adds ? static_cast<unsigned>(of_cell) : 0u;
            of_cell = static_cast<int>(before + static_cast<unsigned>(sum));
        }
}

// tcgen05.ld.32x32b of one lane: a warp reaches the 32 lanes given by its index modulo 4.
const char* TensorMemory::load(unsigned thread, unsigned address, int* to, unsigned count) {
    if (!exists(address & 0xffff, count)) return "a load outside of what is allocated of tensor memory";
    if (address >> 16 != thread / 32 % 4 * 32) return "a load from lanes that this warp does not reach";
    if (const char* const wrong = use(thread)) return wrong;
    const int* const from = cell(thread % kTensorLanes, address & 0xffff);
    const Unobserved unobserved;
    threads_[thread].loads.push_back({from, to, count});
    memset(to, 0xCD, count * sizeof(int));
    return nullptr;
}

void TensorMemory::wait_for_loads(unsigned thread) {
    if (threads_.empty()) return;
    for (const Load& load : threads_[thread].loads) {
        observe_read(load.from, load.count * sizeof(int));
        const Unobserved unobserved;
        memcpy(load.to, load.from, load.count * sizeof(int));
    }
    threads_[thread].loads.clear();
}

const char* TensorMemory::left_behind() const {
    if (!queue_.empty() || !owed_.empty()) return " ends while products or what tells of them is under way";
    return columns_ == 0 ? nullptr : " ends with tensor memory that nobody has freed";
}

}  // namespace
