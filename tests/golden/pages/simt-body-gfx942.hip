// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu
//
// target    gfx942
// config    simt tile_m=128 tile_n=64 tile_k=64 thread_m=8 thread_n=4 pipeline_stages=2
// launch    conv2d_simt<<<49x2x1, 256, 25600 B>>> when: call

// Words of a tile that are multiplied without a branch. The compiler loads all of them first; more would
// spill.
constexpr int WORDS_AT_A_TIME = 4;
