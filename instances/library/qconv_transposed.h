// The convolution of all phases of a transposed convolution, which is what kernels serve: ConvTranspose2d of Python, on
// the fields of keys. Private to the launcher.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

namespace qconv {

using KeyFields = std::map<std::string, std::string>;

constexpr const char* TRANSPOSED = "conv_transpose2d";

// Returns number `at` of a field that has several.
inline long long number_of(const KeyFields& fields, const char* name, unsigned at) {
    const auto found = fields.find(name);
    const char* text = found == fields.end() ? "1" : found->second.c_str();
    for (; at > 0 && *text != 0; ++text) at -= *text == ',';
    return atoll(text);
}

// The geometry along one axis: `before` and `after` are the outputs that the pads remove.
struct TransposedAxis {
    long long size, taps, stride, gap, before, after, extra;

    static TransposedAxis of(const KeyFields& fields, unsigned axis) {
        return {number_of(fields, axis == 0 ? "h" : "w", 0), number_of(fields, axis == 0 ? "r" : "s", 0),
                std::max(1ll, number_of(fields, "stride", axis)), number_of(fields, "dilation", axis),
                number_of(fields, "pad", axis),           number_of(fields, "pad", axis + 2),
                number_of(fields, "output_padding", axis)};
    }

    long long span() const { return (taps - 1) * gap + 1; }
    long long made() const { return stride * (size - 1) + span() - before - after + extra; }
    long long taps_of_phase() const { return over_stride(span()); }
    // Whole steps at the front that the pad removes, which the convolution does not compute.
    long long skipped() const { return std::min(before / stride, taps_of_phase() - 1); }
    long long first_pad() const { return taps_of_phase() - 1 - skipped(); }
    long long last_pad() const { return std::max(0ll, over_stride(first_crop() + made()) - steps(first_pad())); }
    long long first_crop() const { return before - stride * skipped(); }
    long long last_crop() const { return stride * steps(first_pad() + last_pad()) - first_crop() - made(); }

  private:
    long long over_stride(long long count) const { return (count + stride - 1) / stride; }
    long long steps(long long pads) const { return size + pads - taps_of_phase() + 1; }
};

// Returns the fields of the convolution.
inline KeyFields phases_of(KeyFields fields) {
    const TransposedAxis h = TransposedAxis::of(fields, 0), w = TransposedAxis::of(fields, 1);
    const auto text = [](long long number) { return std::to_string(number); };
    const auto four = [&](long long top, long long left, long long bottom, long long right) {
        return text(top) + "," + text(left) + "," + text(bottom) + "," + text(right);
    };
    fields["k"] = text(number_of(fields, "k", 0) * h.stride * w.stride);
    fields["r"] = text(h.taps_of_phase());
    fields["s"] = text(w.taps_of_phase());
    fields["pad"] = four(h.first_pad(), w.first_pad(), h.last_pad(), w.last_pad());
    fields["crop"] = four(h.first_crop(), w.first_crop(), h.last_crop(), w.last_crop());
    fields["pixel_shuffle"] = fields["stride"];
    fields["stride"] = fields["dilation"] = "1,1";
    fields["layout"] = "nhwc";
    fields["frames"] = "";
    fields.erase("output_padding");
    return fields;
}

}  // namespace qconv
