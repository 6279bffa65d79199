// channel_shuffle:rows=999:groups=3:width=20:x_type=uint8
//
// target    cpu
// config    shuffle threads=64 vector=1 unroll=1
// launch    channel_shuffle<<<313x1x1, 64, 0 B>>> when: call

@@ // The problem.
ELEMENTS_OF_GROUP=19980 GROUPS=3
constexpr int WIDTH = 20;  // channels per group

@@ // The config.
THREADS=64 VECTOR=1 UNROLL=1

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors of a group, per block
STORED=1

@@ a19702a9 in pages/shuffle-two-groups-sm_90a.cu: // A thread loads all of its columns before it stores the first.
@@ 3+2

// Entry points: the CPU device calls one per thread.
extern "C" void channel_shuffle_entry(const void* args) {
    channel_shuffle(*static_cast<const Arguments*>(args));
}
