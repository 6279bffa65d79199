// The types of the generated table: each kernel's arguments, its launches and the problem that it serves. Private to
// the launcher and its table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qconv {

struct Parameters;

// The largest argument struct, as CUDA has limited the parameters of a kernel.
constexpr size_t MOST_ARGUMENT_BYTES = 4096;

// An array of the table, with its length.
template <typename T>
struct Span {
    const T* first;
    size_t count;
    const T* begin() const { return first; }
    const T* end() const { return first + count; }
    const T& operator[](size_t i) const { return first[i]; }
};

enum class Role { input, weights, output, between };  // between: written by one kernel for the next

struct Tensor {
    const char* name;
    const char* type;
    Role role;
    uint64_t bytes;
    unsigned element_bytes, rank;
    uint64_t shape[8];
    unsigned alignment;
    bool may_be_output;  // as a whole: each thread reads its elements before it writes them
};

// Computes the bits of an argument's value for output channel k.
using Value = uint32_t (*)(const Parameters& p, size_t k);

enum class Kind {
    tensor,     // address of tensor `index` of the problem
    workspace,  // address of `count` words that the prepare launches write
    scratch,    // address of `count` words that are zero before the first launch and after each one
    values,     // address of `count` values of layer `index`, one per output channel
    value,      // a value of layer `index`
    map,        // tensor map `index` of the kernel
};

struct Field {
    Kind kind;
    unsigned offset;  // in the argument struct
    unsigned index;
    uint64_t count;
    Value value;
};

// A tensor map of a tensor of the problem, or of a workspace, where `index` is the index of its field.
struct TensorMap {
    bool of_workspace;
    unsigned index;
    bool is_im2col;
    unsigned type, rank, swizzle, l2_promotion;  // values of cuda.h's enumerators
    uint64_t dims[5], strides[4];
    uint32_t box[5], element_strides[5];
    int32_t lower[3], upper[3];
    uint32_t channels, pixels;
    unsigned char described[128];  // as the CPU device reads it; the address, at the start, is filled in later
};

struct Launch {
    const char* symbol;
    void (*entry)(const void*);  // on the CPU: the kernel's function in this library
    unsigned grid[3], threads, smem_bytes, cluster;
    bool once;  // launched when weights are packed, instead of at every call
    // Waits by itself for the launch before it, and lets the next one begin early (programmatic dependent launch).
    bool overlaps;
};

struct Kernel {
    Span<Field> fields;
    Span<TensorMap> maps;
    Span<Launch> launches;
    unsigned argument_bytes, warp_size;
    Span<unsigned char> binary;
};

struct ZeroPoint {
    bool used;
    int low, high;
};

// A number for a whole tensor: a scale, or a zero point from `low` to `high`.
struct Scalar {
    const char* name;
    bool is_scale;
    int low, high;
};

// The allowed range of a value computed from the parameters, as float. `says` names the value in messages.
struct Limit {
    const char* says;
    Value value;
    float least, most;
};

enum class Bias { none, int32, float32 };

// The parameters of a convolution by the problem's names, null where it has none. An op between convolutions has
// scalars instead.
struct Layer {
    const char *x_scale, *w_scale, *y_scale, *residual_scale, *inner_scale, *own_scale, *constant_scale;
    const char *x_zero_point, *w_zero_point, *y_zero_point, *residual_zero_point, *inner_zero_point, *own_zero_point;
    const char *constant_zero_point, *bias, *constant, *table;
    ZeroPoint x_zero, w_zero, y_zero, residual_zero, inner_zero, own_zero, constant_zero;
    ZeroPoint entries;  // range of the table's entries, and of the constant
    Bias bias_kind;
    size_t channels;  // number of bias values
    bool per_channel;
    bool inverts_x, inverts_y, inverts_product;  // scales that must have an inverse
    bool multiplies_constant;                    // rather than adds it
    Span<const char*> numbers, number_names;     // of the activation: its names in the arithmetic, and for the caller
    Span<Scalar> scalars;
    Span<Limit> limits;
};

constexpr Layer of_scalars(Span<Scalar> scalars, Span<Limit> limits) {
    Layer layer = {};
    layer.channels = 1;
    layer.scalars = scalars;
    layer.limits = limits;
    return layer;
}

// How a key spells a field: a flag without a value, an integer, integers with commas between them, a text, a number, or
// the operands of an expression.
enum class Spelled { flag, integer, integers, text, real, operands };

// A field of a key, and its default where it has one. A field whose default depends on another one has several rows, each
// with the value of that field.
struct KeyField {
    const char* name;
    Spelled spelled;
    unsigned count;              // integers of which one stands for all; 0: as many as are given
    const char* standard;        // null: no default. "=NAME": what that field has; "0*NAME": a zero for each number of it
    const char *where, *is_that;  // null, or the other field and its value
};

// The fields of an op's keys.
struct Grammar {
    const char* op;
    Span<KeyField> fields;
};

}  // namespace qconv

struct qconv_kernel {
    const char *key, *target, *device, *origin;
    double time_us;
    qconv::Span<qconv::Tensor> tensors;
    qconv::Span<qconv::Layer> layers;
    qconv::Span<qconv::Kernel> kernels;
};

namespace qconv {
extern const Span<qconv_kernel> table;
extern const Span<Grammar> grammars;
}
