// What the generated table says of each kernel: its arguments, its launches, the problem that it serves. Private to the
// launcher and its table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qconv {

struct Parameters;

// A range of an array whose length is known to the table alone.
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
    bool may_be_output;  // as a whole: a thread reads what it needs of it before it writes there
};

// The bits of an argument's value for an output channel.
using Value = uint32_t (*)(const Parameters& p, size_t k);

enum class Kind {
    tensor,     // the address of a tensor of the problem: `index`
    workspace,  // the address of `count` words, written by what is launched once a set of weights
    scratch,    // the address of `count` words, zeros before the first launch, and left as zeros
    values,     // the address of `count` values, one for each output channel of layer `index`
    value,      // a value of layer `index` itself
    map,        // a tensor map: number `index` of the kernel
};

struct Field {
    Kind kind;
    unsigned offset;  // in the kernel's one argument
    unsigned index;
    uint64_t count;
    Value value;
};

// What the copy engine is told of a tensor of the problem, or of a workspace, which is the number of its field.
struct TensorMap {
    bool of_workspace;
    unsigned index;
    bool is_im2col;
    unsigned type, rank, swizzle, l2_promotion;  // as cuda.h numbers them
    uint64_t dims[5], strides[4];
    uint32_t box[5], element_strides[5];
    int32_t lower[3], upper[3];
    uint32_t channels, pixels;
    unsigned char described[128];  // what the CPU device reads, but for the address, which comes first
};

struct Launch {
    const char* symbol;
    void (*entry)(const void*);  // on the CPU, where kernels are functions of this library
    unsigned grid[3], threads, smem_bytes, cluster;
    bool once;  // when weights are packed, and not when the kernel is called
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

// One number for a whole tensor: a scale, or a zero point from `low` to `high`.
struct Scalar {
    const char* name;
    bool is_scale;
    int low, high;
};

// What a value that follows from the parameters has to be, as float; `says` is what it is the value of.
struct Limit {
    const char* says;
    Value value;
    float least, most;
};

enum class Bias { none, int32, float32 };

// What the parameters of one convolution are, under the names that the problem has for them; null: it has none. An op
// between convolutions has scalars in their place.
struct Layer {
    const char *x_scale, *w_scale, *y_scale, *residual_scale, *inner_scale;
    const char *x_zero_point, *w_zero_point, *y_zero_point, *residual_zero_point, *inner_zero_point, *bias, *table;
    ZeroPoint x_zero, w_zero, y_zero, residual_zero, inner_zero;
    ZeroPoint entries;  // the range of those of the table
    Bias bias_kind;
    size_t channels;  // values of the bias
    bool per_channel;
    bool inverts_x, inverts_y, inverts_product;  // scales that are divided by, and must have an inverse
    Span<const char*> numbers, number_names;     // of the activation: as the arithmetic calls them, and the caller
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
}
