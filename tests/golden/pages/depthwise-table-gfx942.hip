// conv2d:n=1:h=56:w=56:c=48:k=48:r=3:s=3:pad=1,1,1,1:groups=48:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:table:bias=int32:activation=relu
//
//   acc = sum over r, s, c of x * w, in int32
//   b   = clamp(round_half_to_even(relu((acc + bias[k]) * multiplier[k]))) as int8
//   y   = table[the byte of b]
//
// target    gfx942
// config    depthwise rows=8 columns=4 vector=4 run=2 threads=128
// launch    conv2d_repack_weights<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_depthwise<<<10x1x1, 128, 0 B>>> when: call

@@ 44c6d2fd in whole/depthwise-rows-sm_90a.cu: // The kernel's only parameter.
@@ 8+0
    const Output* table;  // 256 outputs, one for each byte

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+0
    const Output* table;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 6+0
    channel.table = args.table;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 11+1
    result = tile::load(channel.table + static_cast<unsigned char>(
        tile::round_small(tile::clamp(value, -128.0f, 127.0f))));
