// nms:images=1:classes=80:boxes=8400:most=300
//
//   y[0] = the number of rows that follow; each other row = an image, a class, a box that is kept:
//   by falling scores, unless a box kept before has more in common with it than the threshold
//
// target    sm_90a
// config    nms threads=256
// launch    suppress<<<80x1x1, 256, 4096 B>>> when: call
// launch    pack<<<1x1x1, 256, 1024 B>>> when: call

@@ // The problem.
CLASSES=80 BOXES=8400 MOST=300 CENTER=false

@@ // The config.
THREADS=256

// Derived values.
[[maybe_unused]] constexpr int WARP_SIZE = 32;
constexpr int ROWS = 24000;  // boxes that may be kept
constexpr int STEPS = 33;  // boxes per thread
constexpr int WORDS = 2;  // words with a bit for each of them
constexpr int SMEM_BYTES = 4096;

using Output = long long;

// The kernel's only parameter.
struct Arguments {
    const float* boxes;  // four numbers per box
    const float* scores;  // for each class, one per box
    const float* thresholds;  // of the intersection over the union, and of the score
    Output* y;  // the number of boxes that are kept, then image, class and box of each
};

static_assert(STEPS <= 32 * WORDS, "every box of a thread has a bit");
static_assert(STEPS * THREADS >= BOXES, "every box belongs to a thread");

// A box by its lower and its higher corner.
struct Box { float low_x, low_y, high_x, high_y; };

__device__ __forceinline__ float smaller(float a, float b) { return b < a ? b : a; }
__device__ __forceinline__ float larger(float a, float b) { return a < b ? b : a; }

__device__ __forceinline__ Box box_at(const float* boxes, int box) {
    const float* const at = boxes + 4 * box;
    const float a = tile::load(at), b = tile::load(at + 1), c = tile::load(at + 2), d = tile::load(at + 3);
    if (!CENTER) return {smaller(b, d), smaller(a, c), larger(b, d), larger(a, c)};
    const float half_x = tile::multiply(c, 0.5f), half_y = tile::multiply(d, 0.5f);
    return {tile::add(a, -half_x), tile::add(b, -half_y), tile::add(a, half_x), tile::add(b, half_y)};
}

__device__ __forceinline__ float area(const Box& box) {
    return tile::multiply(tile::add(box.high_x, -box.low_x), tile::add(box.high_y, -box.low_y));
}

// Returns true where the intersection of two boxes, over their union, exceeds a threshold.
__device__ __forceinline__ bool is_suppressed(const Box& box, const Box& kept, float most) {
    const Box both = {
        larger(box.low_x, kept.low_x), larger(box.low_y, kept.low_y),
        smaller(box.high_x, kept.high_x), smaller(box.high_y, kept.high_y)};
    if (!(both.high_x > both.low_x && both.high_y > both.low_y)) return false;
    const float shared = area(both), first = area(box), second = area(kept);
    const float total = tile::add(tile::add(first, second), -shared);
    const bool has_areas = shared > 0.0f && first > 0.0f && second > 0.0f && total > 0.0f;
    return has_areas && tile::divide(shared, total) > most;
}

// A box that may be kept, and its score; none where its number is negative.
struct Candidate { float score; int box; };

// Returns the one of the higher score, of equal ones the one of the lower number.
__device__ __forceinline__ Candidate better(Candidate a, Candidate b) {
    const bool is_before = a.score > b.score || (a.score == b.score && a.box < b.box);
    const bool is_a = a.box >= 0 && (b.box < 0 || is_before);
    return {is_a ? a.score : b.score, is_a ? a.box : b.box};
}

struct Shared {
    unsigned left[WORDS][THREADS];  // a bit for each box of a thread that may still be kept
    Candidate best[THREADS];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

__device__ __forceinline__ void write_row(Output* row, int image, int of_class, int box) {
    row[0] = image;
    row[1] = of_class;
    row[2] = box;
}

// Marks the boxes of a thread whose score exceeds a threshold; NaN for any score.
__device__ __forceinline__ void mark_boxes(Shared& shared, const float* scores, float least) {
    for (int word = 0; word < WORDS; ++word) {
        unsigned bits = 0;
        for (int bit = 0; bit < 32; ++bit) {
            const int box = (word * 32 + bit) * THREADS + tile::thread();
            if (box >= BOXES) continue;
            const float score = tile::load(scores + box);
            const bool is_left = least == least ? score > least : score == score;
            bits |= static_cast<unsigned>(is_left) << bit;
        }
        shared.left[word][tile::thread()] = bits;
    }
}

// Drops the boxes of a thread that the last box kept suppresses, and itself. Returns the best that is left.
__device__ __forceinline__ Candidate best_of_thread(
    Shared& shared, const float* boxes, const float* scores, float most, int last, const Box& kept) {
    Candidate best = {0.0f, -1};
    for (int step = 0; step < STEPS; ++step) {
        unsigned& word = shared.left[step / 32][tile::thread()];
        const unsigned bit = 1u << step % 32;
        if ((word & bit) == 0) continue;
        const int box = step * THREADS + tile::thread();
        if (last >= 0 && (box == last || is_suppressed(box_at(boxes, box), kept, most)))
            word &= ~bit;
        else
            best = better(best, {tile::load(scores + box), box});
    }
    return best;
}

// Returns the number of the best box of all threads; negative if there is none.
__device__ __forceinline__ int best_of_block(Shared& shared, Candidate own) {
    shared.best[tile::thread()] = own;
    tile::barrier();
    for (int distance = THREADS / 2; distance > 0; distance /= 2) {
        if (tile::thread() < distance)
            shared.best[tile::thread()] =
                better(shared.best[tile::thread()], shared.best[tile::thread() + distance]);
        tile::barrier();
    }
    const int best = shared.best[0].box;
    tile::barrier();  // all threads have read it
    return best;
}

// A block keeps boxes of one class of an image, in the rows of the output that it alone has.
extern "C" __global__ void __launch_bounds__(THREADS) suppress(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    const int image = tile::block_x() / CLASSES, of_class = tile::block_x() % CLASSES;
    const float* const boxes = args.boxes + image * (4 * BOXES);
    const float* const scores = args.scores + tile::block_x() * BOXES;
    const float most = tile::load(args.thresholds);
    Output* const rows = args.y + 3 * (1 + tile::block_x() * MOST);
    mark_boxes(shared, scores, tile::load(args.thresholds + 1));
    int kept = 0, last = -1;
    Box box = {};
    while (kept < MOST) {
        last = best_of_block(shared, best_of_thread(shared, boxes, scores, most, last, box));
        if (last < 0) break;
        box = box_at(boxes, last);
        if (tile::thread() == 0) write_row(rows + 3 * kept, image, of_class, last);
        ++kept;
    }
    for (int row = kept + tile::thread(); row < MOST; row += THREADS) write_row(rows + 3 * row, -1, -1, -1);
}

struct Counts { int of_threads[THREADS]; };

// Returns the number of threads up to this one for which `is_one` is 1.
__device__ __forceinline__ int counted(Counts& counts, int is_one) {
    int count = is_one;
    counts.of_threads[tile::thread()] = count;
    tile::barrier();
    for (int distance = 1; distance < THREADS; distance *= 2) {
        if (tile::thread() >= distance) count += counts.of_threads[tile::thread() - distance];
        tile::barrier();
        counts.of_threads[tile::thread()] = count;
        tile::barrier();
    }
    return count;
}

// Moves the rows that are kept one behind the other. A row moves to the front, where all rows have been read.
extern "C" __global__ void __launch_bounds__(THREADS) pack(const Arguments args) {
    Counts& counts = tile::shared_memory<Counts>();
    Output* const rows = args.y + 3;
    int kept = 0;
    for (int first = 0; first < ROWS; first += THREADS) {
        const int own = first + tile::thread();
        Output row[3] = {-1, -1, -1};
        if (own < ROWS)
            for (int at = 0; at < 3; ++at) row[at] = rows[3 * own + at];
        const int is_kept = row[0] >= 0;
        const int place = kept + counted(counts, is_kept) - 1;
        kept += counts.of_threads[THREADS - 1];
        tile::barrier();  // all threads have read the count
        if (is_kept)
            for (int at = 0; at < 3; ++at) rows[3 * place + at] = row[at];
    }
    for (int row = kept + tile::thread(); row < ROWS; row += THREADS) write_row(rows + 3 * row, -1, -1, -1);
    if (tile::thread() == 0) write_row(args.y, kept, 0, 0);
}
