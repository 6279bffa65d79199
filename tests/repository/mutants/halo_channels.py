"""Mutants of what the family halo does for other numbers of channels: pixels as the rows of an instruction, steps of
zeros that are left out, and pixels that lanes bring."""

from mutants.mutant import Mutant

TESTS = "test_halo.py"
SENSE = f"{TESTS}::test_configs_that_make_no_sense"
PIXEL_ROWS, OF_STRIDES, OF_RESIDUALS, OF_BORDERS, OF_DIRECT = (
    f"{TESTS}::test_nothing_is_left_out[pixel rows{rest}]"
    for rest in ("", ", strides", ", residuals", ", borders", ", direct")
)

GATHERED, WITHIN_WORDS, FEW_SLOTS = (
    f"{TESTS}::test_nothing_is_left_out[gathered{rest}]" for rest in ("", ", strides", ", few slots")
)
SERVED = f"{TESTS}::test_what_it_does_not_serve"

OF_PIXEL_ROWS = (
    Mutant(
        "halo: every instruction of a tile has its first pixels",
        "products",
        "(n / 8 * WINDOW_W + pixel) * ROW",
        "pixel * ROW",
        "An instruction has 64 pixels, eight rows of the tile.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: rows of pixel rows follow each other whatever the stride",
        "products_strided",
        "n / 8 * (STRIDE_H / ROW_STEP) * WINDOW_W + pixel",
        "n / 8 * WINDOW_W + pixel",
        "They lie a stride from each other where all rows come.",
        (OF_STRIDES,),
    ),
    Mutant(
        "halo: columns of the product in the order of the channels",
        "channel_of_row",
        "return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2;",
        "return row;",
        "A lane writes its sums as neighbouring channels.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: both pixels of a lane are its first",
        "outputs",
        "sums[h / 2][2 * e + h % 2]",
        "sums[h / 2][h % 2]",
        "The second lies in the row below.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: both pixels of a lane are of one class",
        "outputs",
        '(row + e) * OUT_W + column"',
        'row * OUT_W + column"',
        "What x_zero adds depends on the row.",
        (OF_BORDERS,),
    ),
    Mutant(
        "halo: residuals of pixel rows are those of the first channels",
        "stage_pixels",
        "chunk_of(residual, pixel + 8 * e, chunk)",
        "chunk_of(residual, pixel + 8 * e, 0)",
        "Each sixteen has its own.",
        (OF_RESIDUALS,),
    ),
    Mutant(
        "halo: shared memory is read as device memory is",
        "stage_pixels",
        "reinterpret_cast<const tile::Words<1>*>(sixteen + channel)->word[0]",
        "tile::load_words<1>(sixteen + channel).word[0]",
        "A GPU refuses it: the load is of device memory.",
        (OF_RESIDUALS,),
    ),
    Mutant(
        "halo: vectors of a pixel past the last channel are stored",
        "write_sums",
        "if (!WHOLE_TILES && k + h >= K) continue;",
        "",
        "The next pixel's first channels lie there.",
        (OF_DIRECT,),
        crashes=True,
    ),
    Mutant(
        "halo: residuals of pixel rows are loaded a vector at a time from the first",
        "load_residuals",
        "reinterpret_cast<const ResidualVector*>(from + i)",
        "reinterpret_cast<const ResidualVector*>(from)",
        "A lane has four channels.",
        (OF_DIRECT,),
    ),
    Mutant(
        "halo: the last step of a pixel's channels is left out",
        "products_strided",
        "c >= LAST_ROW) continue",
        "c >= LAST_ROW - 32) continue",
        "There are channels in it, and zeros only behind them.",
        (OF_STRIDES,),
    ),
)

OF_PLAN = (
    Mutant(
        "halo: pixels are rows where no channel less is multiplied",
        "why_no_pixel_rows",
        "if multiplied >= otherwise:",
        "if multiplied > otherwise:",
        "Both take as long, and one of them is enough.",
        (SENSE,),
    ),
    Mutant(
        "halo: parameters of channels take no registers",
        "check_useful",
        "        in_registers += config.channels // 2\n",
        "",
        "A lane has those of a quarter of the channels.",
        (SENSE,),
    ),
)

OF_GATHERING = (
    Mutant(
        "halo: lanes bring as many chunks as they ask for at once",
        "bring_window",
        "index < CHUNKS_OF_WINDOW; index += 128 * AT_ONCE)",
        "index < CHUNKS_OF_WINDOW; index += CHUNKS_OF_WINDOW)",
        "A window may have more.",
        ("test_halo_gather.py",),
    ),
    Mutant(
        "halo: pixels are brought to where they would lie without a swizzle",
        "place",
        " ^ pixel * ROW / 128 % OF_ROW",
        "",
        "Products look for chunks where TMA would have put them.",
        (GATHERED,),
    ),
    Mutant(
        "halo: a warp tells of windows whose copies are under way",
        "produce",
        "        copies.wait<AHEAD>();\n",
        "",
        "Consumers multiply what was there before.",
        (GATHERED,),
    ),
    Mutant(
        "halo: products see stored pixels without a fence",
        "fill",
        "    tile::fence_proxy_async();\n",
        "",
        "They read shared memory by a way of their own.",
        (WITHIN_WORDS,),
    ),
    Mutant(
        "halo: channels begin with words",
        "bring_window",
        "static_cast<unsigned>(first) % 4 * 8",
        "0",
        "A pixel of 50 channels ends in the middle of one.",
        (WITHIN_WORDS,),
    ),
    Mutant(
        "halo: a tap's weights follow those of the one before at once",
        "produce",
        "slab / SLABS * TAP_BYTES",
        "slab / SLABS * C",
        "They are whole chunks, with zeros behind.",
        (GATHERED,),
    ),
    Mutant(
        "halo: one warp's release empties a slot that four fill",
        "page",
        "shared.ring.open(4);",
        "shared.ring.open(1);",
        "The others read it still.",
        (GATHERED,),
    ),
    Mutant(
        "ring: a slot is full when one warp has filled its share",
        "open",
        "full[slot].init(4);",
        "full[slot].init(1);",
        "The others are on their way.",
        (GATHERED,),
    ),
    Mutant(
        "halo: images that end within a word are read to its end",
        "why_none",
        "if prod(problem.x_shape) % WORD:",
        "if False:",
        "The last bytes are nobody's.",
        (SERVED,),
    ),
    Mutant(
        "halo: as many windows are under way as there are slots",
        "HaloPlan._bringing_constants",
        "self.slots - self.windows.count)",
        "self.slots)",
        "The producer waits for a slot that nobody can release.",
        (FEW_SLOTS,),
    ),
)

MUTANTS = (*OF_PIXEL_ROWS, *OF_PLAN, *OF_GATHERING)
