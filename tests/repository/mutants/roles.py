"""Mutants of the roles of matrix kernels: loader, layout, fragments, atoms, instruction, schedule, combine, store."""

from mutants.mutant import Mutant
from mutants.named import block_random, fused_random, mma, mma_random

ASYNC, REGISTERS = "templates/loader/async.j2", "templates/loader/registers.j2"
CHANNELS = "templates/loader/channel_parameters.j2"
TAP, NCHW, NHWC = "templates/layout/tap.j2", "templates/layout/tap_nchw.j2", "templates/layout/tap_nhwc.j2"
ATOM, FRAGMENTS, INSTRUCTION = "templates/mma/", "templates/fragments/", "templates/instruction/"
SCRATCH, CLUSTER = "templates/combine/scratch.j2", "templates/combine/cluster.j2"
PERSIST, TILE = "templates/schedule/persist.j2", "templates/schedule/tile.j2"

LOADERS = (
    Mutant(
        "async: every part begins at the first step's weights",
        ASYNC,
        "column = WColumn(tile_part.begin * STEP_ELEMENTS + WVectors::element());",
        "column = WColumn(WVectors::element());",
        "A part of the reduction multiplies another part's weights.",
        (mma("parts of a tile"),),
    ),
    Mutant(
        "async: every part begins at the first step's windows",
        ASYNC,
        "tap = Tap(tile_part.begin * STEP_ELEMENTS + XVectors::element());",
        "tap = Tap(XVectors::element());",
        "A part of the reduction multiplies another part's windows.",
        (mma("parts of a tile"),),
    ),
    Mutant(
        "async: bytes past the end of the reduction",
        ASYNC,
        "inside && tap.exists());",
        "inside);",
        "The window sums count bytes of the next pixel, which no filter has.",
        (mma("matrix product"),),
    ),
    Mutant(
        "async: a thread goes on after the first part of its copies",
        ASYNC,
        "if (part == PARTS - 1) column.advance<STEP_ELEMENTS>();",
        "if (part == 0) column.advance<STEP_ELEMENTS>();",
        "The later parts of a step copy the next step's weights.",
        ("tests/templates/test_mma_roles.py::test_many_copies_come_in_parts",),
    ),
    Mutant(
        "loaders: channel parameters of the first threads alone",
        CHANNELS,
        "i < (TILE_N + THREADS - 1) / THREADS; ++i",
        "i < 1; ++i",
        "Where a tile has more channels than the block threads, the last ones have no parameters.",
        ("tests/templates/test_mma_roles.py::test_a_tile_of_more_channels_than_threads",),
    ),
    Mutant(
        "registers: weights past the end of the reduction",
        REGISTERS,
        "if (!HAS_REDUCTION_REMAINDER || index < REDUCTION) {",
        "{",
        "The last filter is read beyond its end.",
        ("tests/templates/test_mma_roles.py::test_nothing_is_read_behind_it",),
        slow=True,
    ),
    Mutant(
        "registers: padding past the end of the reduction",
        REGISTERS,
        "tap.exists() ? padding_word(args) : 0u;",
        "padding_word(args);",
        "The window sums count bytes that no filter has.",
        ("tests/templates/test_mma_roles.py::test_vectors_through_registers_end_with_the_reduction",),
    ),
    Mutant(
        "loaders: parameters of the first tile's channels",
        CHANNELS,
        "const int k = existing_channel(tile_part, n);",
        "const int k = n < K ? n : 0;",
        "Tiles further on have parameters of their own channels.",
        (mma("registers"),),
    ),
)

LAYOUTS = (
    Mutant(
        "tap: one of two bits is enough",
        TAP,
        "return (inside & wanted()) == wanted();",
        "return (inside & wanted()) != 0;",
        "An element is inside where its row and its column are.",
        (mma("stream, bytes"),),
    ),
    Mutant(
        "nchw tap: the carry of a row",
        NCHW,
        "            row -= R;\n            ++channel;\n",
        "            row -= R;\n",
        "Behind the last row of a filter the next channel begins.",
        (mma("tile, planes"),),
    ),
    Mutant(
        "nchw tap: no dilation of rows",
        NCHW,
        "(channel * IN_H + row * DILATION_H) * IN_W",
        "(channel * IN_H + row) * IN_W",
        "Taps lie DILATION_H rows apart.",
        (mma("tile, planes"), mma_random("sm_80"), mma_random("sm_75"), mma_random("gfx942")),
    ),
    Mutant(
        "nhwc tap: the carry of a column",
        NHWC,
        "            column -= S;\n            ++row;\n",
        "            column -= S;\n",
        "Behind the last column of a filter its next row begins.",
        (mma("tile"),),
    ),
    Mutant(
        "nhwc tap: all taps, and the same channels again",
        NHWC,
        "        row = 0;\n        channel += STEP_ELEMENTS;\n",
        "        row = 0;\n",
        "Where all taps of a run of channels come first, the next run follows.",
        ("tests/templates/test_mma_roles.py::test_all_taps_of_some_channels_before_the_next",),
    ),
    Mutant(
        "nhwc tap: the one tap begins at its first channel",
        NHWC,
        "explicit Tap(unsigned index) : channel(index) {}",
        "explicit Tap(unsigned) : channel(0) {}",
        "Every thread of a row has a column of its own.",
        (mma("matrix product"),),
    ),
    Mutant(
        "nhwc: a matrix product has one group",
        NHWC,
        "static_cast<int>(pixel) * C + group * C_GROUP, 0, 0}",
        "static_cast<int>(pixel) * C, 0, 0}",
        "Every group has input channels of its own.",
        tuple(mma_random(name) for name in ("sm_80", "sm_75", "gfx1100")),
    ),
)

ATOMS = (
    Mutant(
        "tiles by ldmatrix: the first rows for all matrices",
        FRAGMENTS + "ldmatrix_of_tiles.j2",
        "* Fragment::ROWS + Fragment::row_of(part);",
        "* Fragment::ROWS;",
        "A fragment of sixteen rows is two matrices down.",
        (mma("tile"),),
    ),
    Mutant(
        "windows by ldmatrix: the halves of a step change places",
        FRAGMENTS + "ldmatrix_of_windows.j2",
        "chunk_of_word(int, int word) { return word; }",
        "chunk_of_word(int, int word) { return 1 - word; }",
        "The weights of a chunk meet the pixels of another.",
        (fused_random("sm_80"),),
    ),
    Mutant(
        "rows: the first bytes for every instruction",
        FRAGMENTS + "rows.j2",
        "b[i] = x.word[issue * A_REGISTERS + i];",
        "b[i] = x.word[i];",
        "Sixteen bytes of a row are enough for several instructions, each with its own.",
        (mma("mfma 32x32"),),
    ),
    Mutant(
        "rows of tiles: one chunk for all lanes",
        FRAGMENTS + "rows_of_tiles.j2",
        "tile::lane() / ATOM_ROWS % (K_BLOCK / 16)",
        "0",
        "The groups of lanes take chunks of their own.",
        (mma("mfma 16x16"),),
    ),
    Mutant(
        "rows of windows: the words of a chunk in reverse",
        FRAGMENTS + "rows_of_windows.j2",
        "return word * 4; }",
        "return 12 - word * 4; }",
        "The weights of a word meet the pixels of another.",
        (fused_random("gfx942"),),
    ),
    Mutant(
        "m16n8k32: rows and chunks of A change places",
        ATOM + "mma_m16n8k32.j2",
        "row_of(int matrix) { return matrix % 2 * 8; }",
        "row_of(int matrix) { return matrix / 2 * 8; }",
        "The second matrix of A is its lower rows.",
        (mma("tile"),),
    ),
    Mutant(
        "m8n8k16: neighbouring channels change places",
        ATOM + "mma_m8n8k16.j2",
        "index_of_channel(unsigned channel) { return channel % 2; }",
        "index_of_channel(unsigned channel) { return 1 - channel % 2; }",
        "A lane's first sum is that of the even channel.",
        (mma("registers"),),
    ),
    Mutant(
        "mfma: channels of a lane one by one",
        ATOM + "mfma.j2",
        "return channel / 4 % CHANNEL_LANES; }",
        "return channel % CHANNEL_LANES; }",
        "A lane holds runs of four channels.",
        (mma("mfma 16x16"),),
    ),
    Mutant(
        "gfx11: odd channels in the first half of the wave",
        ATOM + "wmma_gfx11.j2",
        "lane_of_channel(unsigned channel) { return channel % 2; }",
        "lane_of_channel(unsigned channel) { return 1 - channel % 2; }",
        "The first half of the wave holds the even channels.",
        (mma("wmma, copies of operands"),),
    ),
    Mutant(
        "gfx12: channels in turns",
        ATOM + "wmma_gfx12.j2",
        "return channel / 8; }",
        "return channel % 2; }",
        "Each half of the wave holds eight channels in order.",
        (mma("wmma"),),
    ),
    Mutant(
        "emulated: a word of the reduction is left out",
        INSTRUCTION + "emulated.j2",
        "for (int k = 0; k < K / 4; ++k) sum",
        "for (int k = 1; k < K / 4; ++k) sum",
        "Every word of the instruction's reduction counts.",
        (mma("tile"),),
    ),
    Mutant(
        "four products: B is signed where A is",
        INSTRUCTION + "four_products.j2",
        "(B_SIGNED ? static_cast",
        "(A_SIGNED ? static_cast",
        "Each operand has its own signedness.",
        (mma("tile, prefetch, staged"),),
    ),
    Mutant(
        "wgmma emulated: eight rows of B lie sixteen bytes apart",
        INSTRUCTION + "wgmma_chunk_word.j2",
        "first + row / 8 * to_eight",
        "first + row / 8 * 16",
        "Where eight rows follow the others is the operand's stride.",
        (fused_random("sm_90a"), block_random("sm_90a")),
    ),
)

SCHEDULES = (
    Mutant(
        "tile: all parts as long as the shortest",
        TILE,
        ": part * STEPS / SPLIT;",
        ": part * (STEPS / SPLIT);",
        "The last steps belong to no part.",
        (mma("parts of a tile"),),
    ),
    Mutant(
        "tile: the split tiles of the last round are counted from the first",
        TILE,
        "WHOLE + (block - WHOLE) / SPLIT",
        "block / SPLIT",
        "The tiles that are split follow those that are not.",
        tuple(mma_random(name) for name in ("sm_80", "sm_75", "gfx942")),
    ),
    Mutant(
        "tile: parts of split tiles are counted from the first block",
        TILE,
        "is_whole ? 0 : block % SPLIT;",
        "is_whole ? 0 : (block + 1) % SPLIT;",
        "The parts of a tile only change places.",
        tuple(mma_random(name) for name in ("sm_80", "sm_75", "gfx942")),
        equivalent="Every part still has one block, and sums do not ask in which order they are added.",
    ),
    Mutant(
        "persist: a tile is left out",
        PERSIST,
        "        tile += BLOCKS;\n",
        "        tile += BLOCKS + 1;\n",
        "A block's next tile is BLOCKS further on.",
        (mma("persist"),),
    ),
    Mutant(
        "persist: the steps left over",
        PERSIST,
        "left = EACH + (block < MORE ? 1 : 0);",
        "left = EACH;",
        "The steps that do not divide among the blocks belong to nobody.",
        ("tests/templates/test_mma_roles.py::test_some_blocks_have_a_step_more",),
    ),
    Mutant(
        "persist: a share goes on into the next tile",
        PERSIST,
        "return left < rest ? left : rest;",
        "return left;",
        "A share ends where its tile does.",
        (mma("stream"),),
    ),
    Mutant(
        "persist: parameters of every tile in one place",
        PERSIST,
        "loader.load_channel_parameters(shared.channel_parameters[next.turn % 2], next);",
        "loader.load_channel_parameters(shared.channel_parameters[0], next);",
        "The next tile's channel parameters come over those that are in use.",
        ("tests/templates/test_mma_roles.py::test_a_block_goes_on_to_other_channels",),
    ),
)

COMBINES = (
    Mutant(
        "none: nothing is written",
        "templates/combine/none.j2",
        "    write_tile(args, shared, tile_part, acc);\n",
        "",
        "A tile that nobody shares is written by its block.",
        (mma("tile"),),
    ),
    Mutant(
        "scratch: a first part is whole",
        SCRATCH,
        "tile_part.begin == 0 && tile_part.end == STEPS;",
        "tile_part.begin == 0;",
        "A block that has the first part alone writes its sums as if they were all.",
        (mma("parts of a tile"),),
    ),
    Mutant(
        "scratch: who comes first is the last",
        SCRATCH,
        "steps) + steps == STEPS;",
        "steps) == 0;",
        "The first block takes the sums before the others have added theirs.",
        (mma("parts of a tile"),),
    ),
    Mutant(
        "scratch: tiles lie over each other",
        SCRATCH,
        "index * (COUNT * THREADS) + tile::thread()",
        "index * COUNT + tile::thread()",
        "Every tile has its own sums.",
        (mma("parts of a tile"),),
    ),
)

STORES = (
    Mutant(
        "direct: the first pixel's residuals for all",
        "templates/store/direct.j2",
        "pixel_of(i);\n            residuals[i] =",
        "pixel_of(0);\n            residuals[i] =",
        "A residual belongs to its own pixel.",
        (mma("parts of a tile"),),
    ),
    Mutant(
        "staged: channels past the last",
        "templates/store/staged.j2",
        "if (pixel >= PIXELS || tile_part.k_tile + n >= tile_part.k_end) continue;",
        "if (pixel >= PIXELS) continue;",
        "A tile past the last channel writes over the next pixel's first ones.",
        (mma("tile, prefetch, staged"),),
    ),
    Mutant(
        "staged: residuals of the tile's first channels",
        "templates/store/staged.j2",
        "residual_at(args, pixel, tile_part.k_tile + n, tile_part.k_end);",
        "residual_at(args, pixel, tile_part.k_tile, tile_part.k_end);",
        "A residual belongs to its own channel.",
        (mma("persist, prefetch, staged"),),
    ),
)

MUTANTS = (*LOADERS, *LAYOUTS, *ATOMS, *SCHEDULES, *COMBINES, *STORES)
