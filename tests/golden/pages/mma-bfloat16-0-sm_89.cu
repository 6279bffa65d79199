// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=bfloat16:w_type=bfloat16:out_type=bfloat16:
//     per_channel:bias=float32:activation=relu
//
// target    sm_89
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 128, 16896 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=36 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=16896

@@ 41653dd5 in whole/simt-body-sm_90a.cu: // Elements of the reduction are packed into 4-byte words; ONES has a 1 in each element of a word.
@@ 6+1
using Bits = unsigned short;  // one element

@@ abf43432 in whole/mma-body-sm_90a.cu: // The epilogue's channel parameters of a tile, in shared memory.
@@ 3+1
    float bias[TILE_N];

@@ ffc6f651 in whole/mma-body-sm_90a.cu:     // Loads the channel parameters in the group of the next step, so that the first products do not wait for
@@ 11+2
                tile::shared_address(&channel_parameters.bias[n]),
                args.bias + k, true);

@@ ff9797a3 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Channel channel_at(
@@ 6+1
    channel.bias = channel_parameters.bias[n];
