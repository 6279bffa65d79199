// argmax:outer=100352:length=20:inner=1:x_type=uint8
//
//   y = the first index i at which x[i] is the largest element
//
// target    sm_90a
// config    argmax threads=64 vector=4 team=2 unroll=1
// launch    argmax<<<3136x1x1, 64, 256 B>>> when: call

@@ // The problem.
OUTPUTS=100352 LENGTH=20
constexpr int INNER = 1;  // distance in elements between neighbours along the axis
LAST=false LEAST=0

@@ // The config.
THREADS=64 VECTOR=4
constexpr int TEAM = 2;  // threads that share an axis
UNROLL=1

@@ // Derived values.
INDEX_BITS=24 TEAMS=32 OUTPUTS_OF_TEAM=1 STEP=4 SMEM_BYTES=256

using X = unsigned char;
using Output = long long;

// The kernel's only parameter.
struct Arguments {
    const X* x;  // the tensor
    Output* y;  // index of the largest element of each axis
};

constexpr unsigned MOST_INDEX = (1u << INDEX_BITS) - 1;
static_assert(LENGTH - 1 <= MOST_INDEX, "every index fits a key");
static_assert(TEAM * TEAMS == THREADS, "every thread is of a team");
static_assert(INNER == 1 || STEP == 1, "a vector lies along the axis, or across it");

// Returns the element above its index, so that the largest key has the largest element and, among equal
// elements, the index that the contract selects.
__device__ __forceinline__ unsigned key_of(X element, unsigned at) {
    const unsigned above_least = static_cast<unsigned>(element - LEAST);
    return (above_least << INDEX_BITS) | (LAST ? at : MOST_INDEX - at);
}

__device__ __forceinline__ Output index_of(unsigned key) {
    const unsigned low = key & MOST_INDEX;
    return static_cast<Output>(LAST ? low : MOST_INDEX - low);
}

__device__ __forceinline__ unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }

// The best key of each thread, one row per member of a team.
struct Shared { unsigned keys[TEAM][TEAMS * OUTPUTS_OF_TEAM]; };
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Returns the index of the first element along the axis of an output.
__device__ __forceinline__ unsigned first_of_axis(unsigned output) {
    return output / INNER * (LENGTH * INNER) + output % INNER;
}

// Neighbouring threads read neighbouring vectors: members of a team along the axis, else teams across it.
extern "C" __global__ void __launch_bounds__(THREADS) argmax(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    const int team = INNER == 1 ? tile::thread() / TEAM : tile::thread() % TEAMS;
    const int member = INNER == 1 ? tile::thread() % TEAM : tile::thread() / TEAMS;
    const unsigned first = static_cast<unsigned>(tile::block_x()) * (TEAMS * OUTPUTS_OF_TEAM);
    const unsigned output = first + team * OUTPUTS_OF_TEAM;
    // Keys are never negative, so a thread that reads nothing does not affect the result.
    unsigned best[OUTPUTS_OF_TEAM] = {};
    if (output < OUTPUTS) {
        const X* const x = args.x + first_of_axis(output);
#pragma unroll UNROLL
        for (unsigned at = member * STEP; at < LENGTH; at += TEAM * STEP) {
            const Vector<X> loaded = load_vector(x + at * INNER);
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) {
                const int which = i % OUTPUTS_OF_TEAM;
                best[which] = larger(best[which], key_of(loaded.element[i], at + i % STEP));
            }
        }
    }
    Shared& shared = tile::shared_memory<Shared>();
#pragma unroll
    for (int i = 0; i < OUTPUTS_OF_TEAM; ++i) shared.keys[member][team * OUTPUTS_OF_TEAM + i] = best[i];
    tile::barrier();
    for (int i = tile::thread(); i < TEAMS * OUTPUTS_OF_TEAM && first + i < OUTPUTS; i += THREADS) {
        unsigned key = 0;
        for (int each = 0; each < TEAM; ++each) key = larger(key, shared.keys[each][i]);
        args.y[first + i] = index_of(key);
    }
}
