"""Mutants of the loader of AMD architectures, whose hardware checks the bounds of a buffer."""

from mutants.mutant import Mutant
from mutants.named import mma

HAS_REDUCTION_REMAINDER, PADDED, COPIES = mma("mfma 16x16"), mma("wmma"), mma("wmma, copies of operands")
WHOLE_STEPS = mma("mfma, whole steps of a window")

MUTANTS = (
    Mutant(
        "buffers: pixels of a buffer of no bytes at an offset of all lanes",
        "fetch_x",
        "X_MOVES_TOGETHER ? common_byte_of(offset, bytes) : 0",
        "X_MOVES_TOGETHER ? byte_of(offset) : 0",
        "GFX9 subtracts it from the size without a sign, and reads all memory past the last step.",
        (WHOLE_STEPS,),
    ),
    Mutant(
        "buffers: weights of a buffer of no bytes at an offset of all lanes",
        "fetch_w",
        "W_MOVES_TOGETHER ? common_byte_of(index, bytes) : 0",
        "W_MOVES_TOGETHER ? byte_of(index) : 0",
        "GFX9 subtracts it from the size without a sign, and reads all memory past the last step.",
        (WHOLE_STEPS,),
    ),
    Mutant(
        "buffers: every step fills one stage",
        "put",
        "        stage = 1 - stage;\n",
        "",
        "The step that is multiplied is written over.",
        (PADDED,),
    ),
    Mutant(
        "buffers: every part begins at the first step's weights",
        "fill",
        "column = WColumn(begin +",
        "column = WColumn(0 * begin +",
        "A part of the reduction multiplies another part's weights.",
        (COPIES,),
    ),
    Mutant(
        "buffers: every part begins at the first step's windows",
        "fill",
        "tap = Tap(begin +",
        "tap = Tap(0 * begin +",
        "A part of the reduction multiplies another part's windows.",
        (COPIES,),
    ),
    Mutant(
        "buffers: padding is zero",
        "put",
        "(padding >> i & 1) != 0 ? filling : word;",
        "(padding >> i & 1) != 0 ? 0u * filling : word;",
        "Padding is a real zero, which is stored as the zero point.",
        (PADDED,),
    ),
    Mutant(
        "buffers: the first vector's padding for all",
        "fetch_x",
        "!inside && tap.exists()) << i;",
        "!inside && tap.exists()) << 0;",
        "Each vector of a tile lies in the padding or not.",
        (PADDED,),
    ),
    Mutant(
        "buffers: weights past the end of the reduction",
        "fetch_w",
        "bool exists = WVectors::exists(i) && (!HAS_REDUCTION_REMAINDER || index < REDUCTION);",
        "bool exists = WVectors::exists(i);",
        "The last filter is read beyond its end.",
        (HAS_REDUCTION_REMAINDER,),
    ),
    Mutant(
        "buffers: windows past the end of the reduction",
        "fetch_x",
        "inside && tap.exists() ? byte_of(at) : tile::NOWHERE",
        "inside ? byte_of(at) : tile::NOWHERE",
        "The window sums count bytes that no filter has.",
        (HAS_REDUCTION_REMAINDER, PADDED, mma("mfma 32x32")),
    ),
    Mutant(
        "buffers: steps past the last",
        "fetch",
        "fetch_w(left > 0 ? W_SIZE : 0);",
        "fetch_w(W_SIZE);",
        "Behind the last step the weights end.",
        (PADDED, COPIES),
    ),
    Mutant(
        "loaders: parameters of the tile's first channel",
        "load_channel_parameters.j2",
        "const int k = existing_channel(tile_part, n);",
        "const int k = existing_channel(tile_part, 0);",
        "Scales and biases are per channel.",
        (PADDED,),
    ),
    Mutant(
        "register tile: every vector is the first",
        "put",
        "= words[i];",
        "= words[0];",
        "A thread carries several vectors of a tile.",
        (PADDED,),
    ),
    Mutant(
        "register tile: vectors lie over each other",
        "put",
        "Vectors::offset_of(i)",
        "Vectors::offset_of(0)",
        "Each vector of a tile has a place of its own.",
        (PADDED,),
    ),
    Mutant(
        "register tile: vectors past the tile's last row",
        "put",
        "            if (!Vectors::exists(i)) continue;\n",
        "",
        "Threads write past the end of an operand's tile.",
        ("test_mma_roles.py::test_what_is_carried_to_shared_memory_ends_with_the_tile",),
    ),
)
