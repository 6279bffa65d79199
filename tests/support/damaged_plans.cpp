// Reads a plan over and over, each time with other damage, and prints how many readings refused it and how many did not.
// Nothing of a plan is run: whoever makes its checksum anew can write any launch into it.
//
//     damaged_plans PLAN KERNELS_BYTES WEIGHTS_BYTES COUNT
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "qconv_shipped.h"

using namespace qconv_shipped;

namespace {

constexpr char BYTES[] = "0123456789 \n-.%\"abcf\xff";  // and a zero
uint64_t state = 9;
uint64_t drawn(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

std::string damaged(std::string text) {
    const size_t at = drawn(text.size());
    switch (drawn(5)) {
        case 0:
            text.resize(at);
            break;
        case 1:
            text.replace(at, 8, text.substr(drawn(text.size()), 8));
            break;
        default:
            text[at] = BYTES[drawn(sizeof BYTES)];
    }
    return text;
}

}  // namespace

int main(int count, char** words) {
    if (count != 5) return 2;
    std::ifstream file(words[1], std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    // A plan has places in the other files, and is read without them.
    const unsigned char first = 0;
    const Bytes kernels = {&first, strtoull(words[2], nullptr, 10)}, weights = {&first, strtoull(words[3], nullptr, 10)};
    long refused = 0, read = 0;
    for (long i = strtol(words[4], nullptr, 10); i > 0; --i) {
        const std::string text = damaged(whole);
        try {
            read_plan({reinterpret_cast<const unsigned char*>(text.data()), text.size()}, kernels, weights);
            ++read;
        } catch (const Failure& failure) {
            if (failure.status != QCONV_NETWORK_BAD_FOLDER || failure.text.size() < 20) return 1;
            ++refused;
        }
    }
    printf("%ld %ld\n", refused, read);
    return 0;
}
