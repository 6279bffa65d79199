// nms:images=8:classes=1:boxes=1000:most=1000:center
//
// target    gfx942
// config    nms threads=256
// launch    suppress<<<8x1x1, 256, 3072 B>>> when: call
// launch    pack<<<1x1x1, 256, 1024 B>>> when: call

@@ // The problem.
CLASSES=1 BOXES=1000 MOST=1000 CENTER=true

// Derived values.
[[maybe_unused]] constexpr int WARP_SIZE = 64;
constexpr int ROWS = 8000;  // boxes that may be kept
constexpr int STEPS = 4;  // boxes per thread
constexpr int WORDS = 1;  // words with a bit for each of them
constexpr int SMEM_BYTES = 3072;

@@ a09ca2ce in pages/nms-detector-sm_90a.cu: // A block keeps boxes of one class of an image, in the rows of the output that it alone has.
@@ 14+0
        last = tile::same_in_every_lane(last);
