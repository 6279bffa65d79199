"""Mutants of what the family halo does for other numbers of channels: pixels as the rows of an instruction, steps of
zeros that are left out, and pixels that lanes bring."""

from mutants.mutant import Mutant

PAGES = "templates/conv2d/"
TESTS = "tests/templates/test_halo.py"
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
        "templates/families/halo/page.j2",
        "8 * i * NEXT_ROW + pixel;",
        "pixel;",
        "An instruction has 64 pixels, eight rows of the tile.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: rows of pixel rows follow each other whatever the stride",
        "templates/families/halo/page.j2",
        "8 * i * NEXT_ROW + pixel;",
        "8 * i * WINDOW_W + pixel;",
        "They lie a stride from each other where all rows come.",
        (OF_STRIDES,),
    ),
    Mutant(
        "halo: columns of the product in the order of the channels",
        "templates/families/halo/pixel_rows.j2",
        "return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2;",
        "return row;",
        "A lane writes its sums as neighbouring channels.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: both pixels of a lane are its first",
        "templates/families/halo/pixel_rows.j2",
        "atoms[h / 2][2 * e + h % 2]",
        "atoms[h / 2][h % 2 + 0 * e]",
        "The second lies in the row below.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: both pixels of a lane are of one class",
        "templates/families/halo/outputs_at_borders.j2",
        "channels.at(fragment.row + e * ProductRows::DOWN, e",
        "channels.at(fragment.row, e",
        "What x_zero adds depends on the row.",
        (OF_BORDERS,),
    ),
    Mutant(
        "halo: residuals of pixel rows are those of the first channels",
        "templates/families/halo/residuals_in_window.j2",
        "staged.chunk(pixel + 8 * e, chunk)",
        "staged.chunk(pixel + 8 * e, 0)",
        "Each sixteen has its own.",
        (OF_RESIDUALS,),
    ),
    Mutant(
        "halo: shared memory is read as device memory is",
        "templates/families/halo/residuals_in_window.j2",
        "reinterpret_cast<const tile::Words<1>*>(four)->word[0]",
        "tile::load_words<1>(four).word[0]",
        "A GPU refuses it: the load is of device memory.",
        (OF_RESIDUALS,),
    ),
    Mutant(
        "halo: vectors of a pixel past the last channel are stored",
        "ordered/pixel_of_halo.j2",
        "if (!WHOLE_TILES && k + h >= K) continue;",
        "if (!WHOLE_TILES && k >= K) continue;",
        "The next pixel's first channels lie there.",
        (OF_DIRECT,),
        crashes=True,
    ),
    Mutant(
        "halo: residuals of pixel rows are loaded a vector at a time from the first",
        "templates/families/halo/residuals_in_memory.j2",
        "args.residual + (pixel * K + k)",
        "args.residual + (pixel * K + fragment.k)",
        "A lane has four channels.",
        (OF_DIRECT,),
    ),
    Mutant(
        "halo: the last step of a pixel's channels is left out",
        "templates/families/halo/page.j2",
        "c >= LAST_ROW) continue",
        "c >= LAST_ROW - 32) continue",
        "There are channels in it, and zeros only behind them.",
        (OF_STRIDES,),
    ),
    Mutant(
        "halo: both pixels of a fragment are staged as the first",
        "templates/families/halo/stage_pixel_rows.j2",
        "staged.chunk(pixel + 8 * e, chunk)",
        "staged.chunk(pixel, chunk)",
        "The second lies in the row below.",
        (PIXEL_ROWS,),
    ),
)

OF_PLAN = (
    Mutant(
        "halo: pixels are rows where no channel less is multiplied",
        "generator/families/halo/config.py",
        "if multiplied >= otherwise:",
        "if multiplied > otherwise:",
        "Both take as long, and one of them is enough.",
        (SENSE,),
    ),
    Mutant(
        "halo: parameters of channels take no registers",
        "generator/families/halo/config.py",
        "        in_registers += config.channels // 2\n",
        "",
        "A lane has those of a quarter of the channels.",
        (SENSE,),
    ),
)

OF_GATHERING = (
    Mutant(
        "halo: lanes bring as many chunks as they ask for at once",
        "templates/families/halo/gather_words.j2",
        "index < CHUNKS_OF_WINDOW; index += 128 * CHUNKS_AT_ONCE)",
        "index < CHUNKS_OF_WINDOW; index += CHUNKS_OF_WINDOW)",
        "A window may have more.",
        ("tests/templates/test_halo_gather.py",),
    ),
    Mutant(
        "halo: taps of a filter are as far apart as in the packed weights",
        "templates/families/halo/filter.j2",
        "tap * C + c",
        "tap * TAP_BYTES + c",
        "Only the packed weights have zeros behind the channels.",
        (GATHERED,),
    ),
    Mutant(
        "halo: all weights of a word lie in its first byte",
        "templates/families/halo/repack_bytes.j2",
        " << (c - first) * 8",
        "",
        "A word has four channels.",
        (GATHERED,),
    ),
    Mutant(
        "halo: pixels are brought to where they would lie without a swizzle",
        "templates/families/halo/gather.j2",
        " ^ pixel * ROW / 128 % OF_ROW",
        "",
        "Products look for chunks where TMA would have put them.",
        (GATHERED,),
    ),
    Mutant(
        "halo: a warp tells of windows whose copies are under way",
        "templates/families/halo/gather_copies.j2",
        "        copies.wait<AHEAD>();\n",
        "",
        "Consumers multiply what was there before.",
        (GATHERED,),
    ),
    Mutant(
        "halo: products see stored pixels without a fence",
        "templates/families/halo/gather.j2",
        "    tile::fence_proxy_async();\n",
        "",
        "They read shared memory by a way of their own.",
        (WITHIN_WORDS,),
    ),
    Mutant(
        "halo: channels begin with words",
        "templates/families/halo/gather_words.j2",
        "static_cast<unsigned>(first) % 4 * 8",
        "0",
        "A pixel of 50 channels ends in the middle of one.",
        (WITHIN_WORDS,),
    ),
    Mutant(
        "halo: a tap's weights follow those of the one before at once",
        "templates/families/halo/page.j2",
        "slab / SLABS * (TAP_BYTES / CHANNEL_BYTES)",
        "slab / SLABS * C",
        "They are whole chunks, with zeros behind.",
        (GATHERED,),
    ),
    Mutant(
        "halo: one warp's release empties a slot that four fill",
        "templates/families/halo/page.j2",
        "shared.ring.open(RELEASES);",
        "shared.ring.open(1);",
        "The others read it still.",
        (GATHERED,),
    ),
    Mutant(
        "ring: a slot is full when one warp has filled its share",
        "templates/pipeline/ring.j2",
        "full[slot].init(4);",
        "full[slot].init(1);",
        "The others are on their way.",
        (GATHERED,),
    ),
    Mutant(
        "halo: images that end within a word are read to its end",
        "generator/families/halo/config.py",
        "if prod(problem.x_shape) % WORD:",
        "if False:",
        "The last bytes are nobody's.",
        (SERVED,),
    ),
    Mutant(
        "halo: as many windows are under way as there are slots",
        "generator/families/halo/plan.py",
        "self.slots - self.windows.count)",
        "self.slots)",
        "The producer waits for a slot that nobody can release.",
        (FEW_SLOTS,),
    ),
)

MUTANTS = (*OF_PIXEL_ROWS, *OF_PLAN, *OF_GATHERING)
