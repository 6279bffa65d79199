// The parameters of a call: found by name, checked, and converted for the arithmetic.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "qconv_kernels.h"
#include "qconv_table.h"

namespace qconv {

// The error of an interface function.
struct Failure {
    qconv_status status;
    std::string text;
};

[[noreturn]] inline void refuse(const std::string& text) { throw Failure{QCONV_BAD_ARGUMENT, text}; }

// Entries of a table, one per byte.
constexpr unsigned TABLE_ENTRIES = 256;

// The values of a convolution, or of an op between convolutions: a convolution's scales as they were given, all others
// in the type in which the kernels compute.
struct Parameters {
    double x_scale = 1, y_scale = 1, residual_scale = 1, inner_scale = 1, own_scale = 1, constant_scale = 1;
    int x_zero_point = 0, y_zero_point = 0, residual_zero_point = 0, inner_zero_point = 0, own_zero_point = 0;
    int constant_zero_point = 0;
    std::vector<double> w_scales = {1};
    std::vector<int> w_zero_points = {0}, integers, constants, table;
    std::vector<float> reals;
    std::vector<float> numbers;
    std::vector<double> scalars;  // each is exactly a float or an int
    const Layer* layer = nullptr;

    double w_scale(size_t k) const { return w_scales[w_scales.size() == 1 ? 0 : k]; }
    int w_zero_point(size_t k) const { return w_zero_points[w_zero_points.size() == 1 ? 0 : k]; }
    int integer_bias(size_t k) const { return integers[k]; }
    int constant(size_t k) const { return constants[k]; }
    float bias(size_t k) const { return reals[k]; }
    // Returns word `k` of the table, rotated to begin with entry `first`: four consecutive entries.
    int table_word(size_t k, int first) const {
        uint32_t word = 0;
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned at = (4 * static_cast<unsigned>(k) + i + static_cast<unsigned>(first)) % TABLE_ENTRIES;
            word |= (static_cast<uint32_t>(table[at]) & 0xffu) << 8 * i;
        }
        return static_cast<int>(word);
    }
    float number(const char* name) const {
        for (size_t i = 0; i < layer->numbers.count; ++i)
            if (strcmp(layer->numbers[i], name) == 0) return numbers[i];
        throw Failure{QCONV_INTERNAL, std::string("the table has no number ") + name};
    }
    float scale(const char* name) const { return static_cast<float>(scalar(name)); }
    int zero_point(const char* name) const { return static_cast<int>(scalar(name)); }

  private:
    double scalar(const char* name) const {
        for (size_t i = 0; i < layer->scalars.count; ++i)
            if (strcmp(layer->scalars[i].name, name) == 0) return scalars[i];
        throw Failure{QCONV_INTERNAL, std::string("the table has no scalar ") + name};
    }
};

// Rounds half to even, whatever the caller's rounding mode, and saturates to the range of int32.
inline int rounded(double value) {
    if (value >= 2147483647.0) return 2147483647;
    if (value <= -2147483648.0) return -2147483647 - 1;
    const double below = std::floor(value), rest = value - below;
    const double whole = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0.0) ? below + 1.0 : below;
    return static_cast<int>(whole);
}

// Returns the inverse where multiplying by it can replace a division, otherwise 0.
inline float inverse_where_it_serves(double scale) {
    const bool serves = scale >= 0x1p-40 && scale <= 0x1p40;
    return serves ? 1.0f / static_cast<float>(scale) : 0.0f;
}

inline uint32_t bits(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

inline uint32_t bits(int value) { return static_cast<uint32_t>(value); }

inline float float_of(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

// Returns the names of a layer's parameters.
inline std::vector<const char*> names_of(const Layer& layer) {
    std::vector<const char*> names;
    for (const char* name : {layer.x_scale, layer.w_scale, layer.y_scale, layer.x_zero_point, layer.w_zero_point,
                             layer.y_zero_point, layer.bias, layer.residual_scale, layer.residual_zero_point,
                             layer.inner_scale, layer.inner_zero_point, layer.own_scale, layer.own_zero_point,
                             layer.constant, layer.constant_scale, layer.constant_zero_point, layer.table})
        if (name != nullptr) names.push_back(name);
    for (const char* name : layer.number_names) names.push_back(name);
    for (const Scalar& scalar : layer.scalars) names.push_back(scalar.name);
    return names;
}

inline bool has_name(const Layer& layer, const char* name) {
    for (const char* own : names_of(layer))
        if (strcmp(own, name) == 0) return true;
    return false;
}

// True where the parameter has no default. Scales default to 1, zero points to 0.
inline bool is_required(const Layer& layer, const char* name) {
    for (const char* number : layer.number_names)
        if (strcmp(number, name) == 0) return true;
    for (const char* one : {layer.bias, layer.residual_scale, layer.inner_scale, layer.own_scale, layer.constant,
                            layer.constant_scale, layer.table})
        if (name == one) return true;
    return false;
}

// The parameters that the caller gave.
class Given {
  public:
    Given(const qconv_parameter* first, size_t count) : first_(first), count_(count) {}

    const qconv_parameter* find(const char* name) const {
        for (size_t i = 0; name != nullptr && i < count_; ++i)
            if (strcmp(first_[i].name, name) == 0) return first_ + i;
        return nullptr;
    }

    void check_each() const {
        if (first_ == nullptr && count_ > 0)
            refuse("parameters is null, and " + std::to_string(count_) + " were announced: give them, or a count of 0");
        for (size_t i = 0; i < count_; ++i) {
            const qconv_parameter& one = first_[i];
            if (one.name == nullptr) refuse("parameter " + std::to_string(i) + " has no name: give one");
            if (one.values == nullptr || one.count == 0)
                refuse(std::string(one.name) + " has no values: give at least one, or leave it out");
            if (one.type != QCONV_INT32 && one.type != QCONV_FLOAT32 && one.type != QCONV_FLOAT64)
                refuse(std::string(one.name) + " has type " + std::to_string(one.type) +
                       "; it must be QCONV_INT32, QCONV_FLOAT32 or QCONV_FLOAT64: convert the values to one");
            if (find(one.name) != &one) refuse(std::string(one.name) + " is given twice: leave one out");
        }
    }

    const qconv_parameter* begin() const { return first_; }
    const qconv_parameter* end() const { return first_ + count_; }

  private:
    const qconv_parameter* first_;
    size_t count_;
};

inline double value_of(const qconv_parameter& given, size_t i) {
    switch (given.type) {
        case QCONV_INT32: return static_cast<const int32_t*>(given.values)[i];
        case QCONV_FLOAT32: return static_cast<const float*>(given.values)[i];
        default: return static_cast<const double*>(given.values)[i];
    }
}

inline void check_count(const qconv_parameter& given, size_t channels) {
    if (given.count == 1 || given.count == channels) return;
    const std::string rule = channels == 1 ? "one" : "one, or " + std::to_string(channels) + ", one per output channel";
    refuse(std::string(given.name) + " has " + std::to_string(given.count) + " values; this problem takes " + rule +
           ": give as many");
}

inline std::vector<double> scales_of(const Given& given, const char* name, size_t channels, double otherwise) {
    const qconv_parameter* found = given.find(name);
    if (found == nullptr) return {otherwise};
    check_count(*found, channels);
    std::vector<double> scales(found->count);
    for (size_t i = 0; i < scales.size(); ++i) {
        scales[i] = value_of(*found, i);
        const float single = static_cast<float>(scales[i]);
        if (!(std::isfinite(single) && single > 0.0f))
            refuse(std::string(name) + " holds " + std::to_string(scales[i]) +
                   "; as float32, every scale must be finite and positive: check how it was computed");
    }
    return scales;
}

inline std::vector<int> zero_points_of(const Given& given, const char* name, ZeroPoint zero, size_t channels) {
    const qconv_parameter* found = given.find(name);
    if (found == nullptr) return {0};
    check_count(*found, channels);
    if (found->type != QCONV_INT32) refuse(std::string(name) + " must be of QCONV_INT32: convert it");
    std::vector<int> points(found->count);
    for (size_t i = 0; i < points.size(); ++i) {
        points[i] = static_cast<const int32_t*>(found->values)[i];
        if (points[i] < zero.low || points[i] > zero.high)
            refuse(std::string(name) + " holds " + std::to_string(points[i]) + "; it must be from " +
                   std::to_string(zero.low) + " to " + std::to_string(zero.high) + ", as its type holds: check it");
    }
    return points;
}

inline float finite(const qconv_parameter& given, size_t i) {
    const float single = static_cast<float>(value_of(given, i));
    if (!std::isfinite(single)) refuse(std::string(given.name) + " must be finite as float32: check how it was computed");
    return single;
}

inline const qconv_parameter& required(const Given& given, const char* name) {
    const qconv_parameter* found = given.find(name);
    if (found == nullptr) refuse(std::string(name) + " was not given, and this problem needs it: add it to the parameters");
    return *found;
}

inline void read_bias(const Layer& layer, const Given& given, Parameters& into) {
    if (layer.bias_kind == Bias::none) return;
    const qconv_parameter& bias = required(given, layer.bias);
    if (bias.count != layer.channels)
        refuse(std::string(bias.name) + " has " + std::to_string(bias.count) + " values; it must have " +
               std::to_string(layer.channels) + ", one per output channel: give as many");
    if ((bias.type == QCONV_INT32) != (layer.bias_kind == Bias::int32))
        refuse(std::string(bias.name) + " must be of " +
               (layer.bias_kind == Bias::int32 ? "QCONV_INT32" : "QCONV_FLOAT32 or QCONV_FLOAT64") + ": convert it");
    for (size_t i = 0; i < bias.count; ++i) {
        if (layer.bias_kind == Bias::int32) into.integers.push_back(static_cast<const int32_t*>(bias.values)[i]);
        else into.reals.push_back(finite(bias, i));
    }
}

inline void read_constant(const Layer& layer, const Given& given, Parameters& into) {
    if (layer.constant == nullptr) return;
    if (required(given, layer.constant).count != layer.channels)
        refuse(std::string(layer.constant) + " must have " + std::to_string(layer.channels) +
               " values, one for each output channel: give as many");
    into.constants = zero_points_of(given, layer.constant, layer.entries, layer.channels);
}

inline void read_table(const Layer& layer, const Given& given, Parameters& into) {
    if (layer.table == nullptr) return;
    if (required(given, layer.table).count != TABLE_ENTRIES)
        refuse(std::string(layer.table) + " must have " + std::to_string(TABLE_ENTRIES) +
               " values, one output for each byte that is requantized: give as many");
    into.table = zero_points_of(given, layer.table, layer.entries, TABLE_ENTRIES);
}

// Reads the activation's numbers. A denormal becomes zero, because a GPU may flush it; the addition turns a negative
// zero into a positive one.
inline void read_numbers(const Layer& layer, const Given& given, Parameters& into) {
    for (const char* name : layer.number_names) {
        const qconv_parameter& number = required(given, name);
        check_count(number, 1);
        const float single = finite(number, 0);
        const bool is_normal = std::fabs(single) >= std::numeric_limits<float>::min();
        into.numbers.push_back((is_normal ? single : single * 0.0f) + 0.0f);
    }
    if (layer.numbers.count == 2 && strcmp(layer.numbers[0], "low") == 0 && into.numbers[0] > into.numbers[1])
        refuse(std::string(layer.number_names[0]) + " is above " + layer.number_names[1] + ": swap them");
}

inline void check_inverse(const char* name, float scale) {
    if (!std::isfinite(1.0f / scale))
        refuse(std::string(name) + " has no finite inverse in float32, and this mode multiplies by it; scale the layer up");
}

inline void check_ratio(const std::string& name, float scale, const char* made, double y_scale, bool is_product = false) {
    const float ratio = scale / static_cast<float>(y_scale);
    if (!(ratio >= 0x1p-126f && ratio <= (is_product ? 0x1p14f : 0x1p20f)))
        refuse(name + " / " + made + " must be 2^-126 to 2^" + (is_product ? "14" : "20") +
               " in float32, or every output would be at an end of its range; check the scales");
}

inline void check_products(const Layer& layer, const Parameters& p) {
    const float x_scale = static_cast<float>(p.x_scale), y_scale = static_cast<float>(p.y_scale);
    const bool adds_residual = layer.inner_scale != nullptr, has_constant = layer.own_scale != nullptr;
    const double behind_constant = adds_residual ? p.inner_scale : p.y_scale;
    const float unit = static_cast<float>(has_constant ? p.own_scale : behind_constant);
    for (double each : p.w_scales) {
        const float product = x_scale * static_cast<float>(each), multiplier = product / unit;
        if (!(std::isfinite(multiplier) && multiplier > 0.0f))
            refuse("x_scale * w_scale / y_scale (or own_scale or inner_scale, where there is one) must be finite and "
                   "positive in float32, or every output would be the same; check the three scales");
        if (layer.inverts_product) check_inverse("x_scale * w_scale", product);
    }
    if (has_constant) {
        const char* made = adds_residual ? layer.inner_scale : "y_scale";
        const float own = static_cast<float>(p.own_scale), constant = static_cast<float>(p.constant_scale);
        if (layer.multiplies_constant) {
            check_ratio(std::string(layer.own_scale) + " * " + layer.constant_scale, own * constant, made,
                        behind_constant, true);
        } else {
            check_ratio(layer.own_scale, own, made, behind_constant);
            check_ratio(layer.constant_scale, constant, made, behind_constant);
        }
    }
    if (adds_residual) {
        check_ratio(layer.inner_scale, static_cast<float>(p.inner_scale), "y_scale", p.y_scale);
        check_ratio(layer.residual_scale, static_cast<float>(p.residual_scale), "y_scale", p.y_scale);
    }
    if (layer.inverts_x) check_inverse(layer.x_scale, x_scale);
    if (layer.inverts_x && layer.residual_scale != nullptr)
        check_inverse(layer.residual_scale, static_cast<float>(p.residual_scale));
    if (layer.inverts_y) check_inverse(layer.y_scale, y_scale);
}

inline double residual_scale_of(const Layer& layer, const Given& given, double y_scale) {
    if (layer.residual_scale == nullptr) return 1;
    required(given, layer.residual_scale);
    const double scale = scales_of(given, layer.residual_scale, 1, 1)[0];
    if (std::fmax(scale, scale / y_scale) > 0x1p119)
        refuse(std::string(layer.residual_scale) + " is above 2^119, in real units or in those of the output: its "
               "product would be infinite: check it");
    return scale;
}

// Returns a scale that has no default, where the problem has it.
inline double scale_of_sum(const Given& given, const char* name) {
    if (name == nullptr) return 1;
    required(given, name);
    return scales_of(given, name, 1, 1)[0];
}

inline void read_scalars(const Layer& layer, const Given& given, Parameters& into) {
    for (const Scalar& scalar : layer.scalars) {
        const ZeroPoint zero = {true, scalar.low, scalar.high};
        into.scalars.push_back(static_cast<float>(scalar.is_scale ? scales_of(given, scalar.name, 1, 1)[0]
                                                                  : zero_points_of(given, scalar.name, zero, 1)[0]));
    }
}

inline std::string spelled(float value) {
    char text[32];
    snprintf(text, sizeof text, "%g", static_cast<double>(value));
    return text;
}

inline void check_limits(const Layer& layer, const Parameters& p) {
    for (const Limit& limit : layer.limits) {
        const float value = float_of(limit.value(p, 0));
        if (!(value >= limit.least && value <= limit.most))
            refuse(std::string(limit.says) + " is " + spelled(value) + "; it must be " + spelled(limit.least) + " to " +
                   spelled(limit.most) + " in float32: check the scales");
    }
}

inline Parameters parameters_of(const Layer& layer, const Given& given) {
    Parameters p;
    p.layer = &layer;
    const size_t channels = layer.per_channel ? layer.channels : 1;
    p.x_scale = scales_of(given, layer.x_scale, 1, 1)[0];
    p.w_scales = scales_of(given, layer.w_scale, channels, 1);
    p.y_scale = scales_of(given, layer.y_scale, 1, 1)[0];
    p.x_zero_point = zero_points_of(given, layer.x_zero_point, layer.x_zero, 1)[0];
    p.w_zero_points = zero_points_of(given, layer.w_zero_point, layer.w_zero, channels);
    p.y_zero_point = zero_points_of(given, layer.y_zero_point, layer.y_zero, 1)[0];
    p.residual_scale = residual_scale_of(layer, given, p.y_scale);
    p.residual_zero_point = zero_points_of(given, layer.residual_zero_point, layer.residual_zero, 1)[0];
    p.inner_scale = scale_of_sum(given, layer.inner_scale);
    p.inner_zero_point = zero_points_of(given, layer.inner_zero_point, layer.inner_zero, 1)[0];
    p.own_scale = scale_of_sum(given, layer.own_scale);
    p.own_zero_point = zero_points_of(given, layer.own_zero_point, layer.own_zero, 1)[0];
    p.constant_scale = scale_of_sum(given, layer.constant_scale);
    p.constant_zero_point = zero_points_of(given, layer.constant_zero_point, layer.constant_zero, 1)[0];
    read_bias(layer, given, p);
    read_constant(layer, given, p);
    read_table(layer, given, p);
    read_numbers(layer, given, p);
    read_scalars(layer, given, p);
    check_products(layer, p);
    check_limits(layer, p);
    return p;
}

}  // namespace qconv
