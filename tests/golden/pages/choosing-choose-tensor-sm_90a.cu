// choose:outer=1:channels=1:inner=16777216:x_type=float32:out_type=int8:mapping=symmetric
//
//   scale and zero_point of the whole array, symmetric, by the rule of torch
//
// target    sm_90a
// config    choosing threads=128 team=128 vector=4 unroll=4 slices=4096
// launch    choose_look<<<4096x1x1, 128, 1024 B>>> when: call
// launch    choose_finish<<<1x1x1, 128, 1024 B>>> when: call

@@ // The problem.
CHANNELS=1 INNER=16777216 COUNT=16777216

@@ // The config.
THREADS=128
constexpr int TEAM = 128;  // threads that reduce one slice
VECTOR=4 UNROLL=4 SLICES=4096

@@ // Derived values.
TEAMS=1 SLICE=4096 SMEM_BYTES=1024

using X = float;
using Scale = float;

// The kernel's only parameter.
struct Arguments {
    const X* x;  // the array
    Scale* scale;  // one per tensor, channel or block
    int* zero_point;  // one per tensor, channel or block
    float* partials;  // minimum and maximum of each slice
};

using Real = float;

// The extremes of the elements seen so far and of zero, which every range includes. NaNs are ignored.
struct Extremes { Real smallest, largest; };

__device__ __forceinline__ void see(Extremes& seen, X element) {
    const Real value = element;
    seen.smallest = tile::minimum(value, seen.smallest);
    seen.largest = tile::maximum(value, seen.largest);
}

__device__ __forceinline__ void join(Extremes& seen, const Extremes& others) {
    seen.smallest = tile::minimum(others.smallest, seen.smallest);
    seen.largest = tile::maximum(others.largest, seen.largest);
}

struct Choice {
    Scale scale;
    int zero_point;
};

// Computes a scale and a zero point from the extremes. The contract fixes the order and the rounding of the
// steps.
__device__ __forceinline__ Choice choice_of(const Extremes& seen) {
    Real smallest = seen.smallest;
    Real largest = seen.largest;
    Scale scale;
    int zero_point;
    smallest = tile::minimum(smallest, 0.0f);
    largest = tile::maximum(largest, 0.0f);
    float unit = tile::divide(tile::maximum(-smallest, largest), 127.5f);
    unit = tile::minimum(tile::maximum(unit, 1.1920928955078125e-07f), 3.4028234663852886e+38f);
    zero_point = 0;
    scale = static_cast<Scale>(unit);
    return {scale, zero_point};
}


// Neighbouring elements that are read and written together.
template <class T>
struct alignas(VECTOR * sizeof(T) < 16 ? VECTOR * sizeof(T) : 16) Vector { T element[VECTOR]; };

// A slice of one channel, which a team of threads reads.
struct Slice {
    unsigned index, channel, begin, end;
    int lane;

    __device__ __forceinline__ bool exists() const { return channel < CHANNELS; }
    __device__ __forceinline__ unsigned part() const { return index % SLICES; }
};

__device__ __forceinline__ Slice slice_of_team() {
    Slice slice;
    slice.index = static_cast<unsigned>(tile::block_x()) * TEAMS + tile::thread() / TEAM;
    slice.channel = slice.index / SLICES;
    slice.begin = slice.part() * SLICE;
    slice.end = slice.part() == SLICES - 1 ? COUNT : slice.begin + SLICE;
    slice.lane = tile::thread() % TEAM;
    return slice;
}

// Returns the index of element `i` of a channel.
__device__ __forceinline__ unsigned element_of(unsigned channel, unsigned i) {
    return (i / INNER * CHANNELS + channel) * INNER + i % INNER;
}

// Returns the extremes of a slice. `x` holds the elements loaded last: all of the slice if IN_REGISTERS.
__device__ __forceinline__ Extremes look_at(
    const Arguments& args, const Slice& slice, Vector<X> (&x)[UNROLL]) {
    Extremes seen = {};
    if (!slice.exists()) return seen;
    for (unsigned row = slice.begin; row < slice.end; row += UNROLL * TEAM * VECTOR) {
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const unsigned first = row + (i * TEAM + slice.lane) * VECTOR;
            if (first + VECTOR <= slice.end) x[i] = load_vector(args.x + element_of(slice.channel, first));
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const unsigned first = row + (i * TEAM + slice.lane) * VECTOR;
            if (first + VECTOR <= slice.end) {
#pragma unroll
                for (int j = 0; j < VECTOR; ++j) see(seen, x[i].element[j]);
            } else {
                for (unsigned at = first; at < slice.end; ++at) {
                    see(seen, args.x[element_of(slice.channel, at)]);
                }
            }
        }
    }
    return seen;
}

struct Shared { Extremes seen[THREADS]; };
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Reduces the extremes of all threads of the team.
__device__ __forceinline__ Extremes together(const Extremes& mine) {
    Extremes* const seen = tile::shared_memory<Shared>().seen;
    const int lane = tile::thread() % TEAM;
    seen[tile::thread()] = mine;
#pragma unroll
    for (int half = TEAM / 2; half > 0; half /= 2) {
        tile::barrier();
        if (lane < half) join(seen[tile::thread()], seen[tile::thread() + half]);
    }
    tile::barrier();
    return seen[tile::thread() - lane];
}

// Each block reads one slice and writes its extremes beside those of the channel's other slices.
extern "C" __global__ void __launch_bounds__(THREADS) choose_look(const Arguments args) {
    const Slice slice = slice_of_team();
    Vector<X> x[UNROLL];
    const Extremes seen = together(look_at(args, slice, x));
    if (slice.lane == 0 && slice.exists()) {
        args.partials[2 * slice.index] = seen.smallest;
        args.partials[2 * slice.index + 1] = seen.largest;
    }
}

__device__ __forceinline__ Extremes look_at_partials(const Arguments& args, unsigned channel) {
    Extremes seen = {};
    for (unsigned i = tile::thread(); i < SLICES; i += THREADS) {
        const Real* const partial = args.partials + 2 * (channel * SLICES + i);
        join(seen, {partial[0], partial[1]});
    }
    return together(seen);
}

__device__ __forceinline__ void store(const Arguments& args, unsigned channel, const Choice& choice) {
    args.scale[channel] = choice.scale;
    args.zero_point[channel] = choice.zero_point;
}

// Each block finishes one channel.
extern "C" __global__ void __launch_bounds__(THREADS) choose_finish(const Arguments args) {
    const unsigned channel = tile::block_x();
    const Choice choice = choice_of(look_at_partials(args, channel));
    if (tile::thread() == 0) store(args, channel, choice);
}
