"""Mutants of the family stem_wgmma: its page, its plan, and its cost."""

from mutants.mutant import Mutant

PAGE = "templates/families/stem_wgmma/produce.j2"
PLAN = "generator/families/stem_wgmma.py"
TESTS = "tests/templates/test_stem_wgmma.py"
STAGED, DIRECT, SKIPPED, UNEVEN = (
    f"{TESTS}::test_nothing_is_left_out[{name}]" for name in ("staged", "direct", "skipped", "uneven")
)
STEPS = f"{TESTS}::test_how_many_steps_a_filter_takes"
SERVED = f"{TESTS}::test_what_it_does_not_serve"
COST = "tests/generator/families/test_stem_wgmma_cost.py"

OF_PAGE = (
    Mutant(
        "stem_wgmma: cells are made of images that are on their way",
        "templates/families/stem_wgmma/produce.j2",
        "        image_ring.wait(at);\n",
        "",
        "TMA may not have brought them.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: cells are written over those that are multiplied",
        "templates/families/stem_wgmma/produce.j2",
        "        if (phase > 0) shared.ring.empty[slot].wait_for_phase(phase - 1);\n",
        "",
        "A window is free when its tile has been multiplied.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: cells are there without a fence",
        "templates/families/stem_wgmma/produce.j2",
        "        tile::fence_proxy_async();\n",
        "",
        "The products may not see what was written.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: one thread says for all that cells are there",
        "templates/families/stem_wgmma/produce.j2",
        "        team_barrier();  // the image is read, and its cells are there\n",
        "",
        "Others may still write theirs.",
        (UNEVEN,),
    ),
    Mutant(
        "stem_wgmma: padding is zeros",
        "templates/families/stem_wgmma/bytes/cells.j2",
        "exists ? word : padding_word(args)",
        "word",
        "Padding is what stands for zero.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: images that end in the middle of a cell are all padding there",
        "templates/families/stem_wgmma/bytes/cells.j2",
        "static_cast<unsigned>(in_row) < IN_H",
        "static_cast<unsigned>(in_row | 1) < IN_H",
        "The upper row of the last cell may be of the image.",
        (DIRECT,),
    ),
    Mutant(
        "stem_wgmma: a cell's rows change places",
        "templates/families/stem_wgmma/bytes/cells.j2",
        "{{upper.word[0], upper.word[1], lower.word[0], lower.word[1]}}",
        "{{lower.word[0], lower.word[1], upper.word[0], upper.word[1]}}",
        "Filters have the upper row first.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: windows begin where no tap looks",
        "templates/families/stem_wgmma/bytes/window.j2",
        ".cell[0][SKIPPED]",
        ".cell[0][0]",
        "Cells are counted in twos, and a filter may begin at the second.",
        (SKIPPED,),
    ),
    Mutant(
        "stem_wgmma: filters begin where their cells do",
        "templates/families/stem_wgmma/bytes/filter_word.j2",
        "lane % 4 / 2 - (BEFORE_H - PAD_TOP);",
        "lane % 4 / 2;",
        "A cell has two rows of pixels.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma on the CPU: the second of two taps is the first",
        "templates/instruction/wgmma_chunk_word.j2",
        "i / 4 * to_chunk",
        "i / 4 * 0",
        "It lies beside the first.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma on the CPU: rows of a filter are those of eight lanes",
        "templates/instruction/wgmma_filters_emulated.j2",
        "row % 8 * 4 + i % 4",
        "row % 4 * 8 + i % 4",
        "Four lanes have a row.",
        (STAGED,),
    ),
)

OF_PARTS = (
    Mutant(
        "stem_wgmma: nobody opens the rings of images",
        "templates/families/stem_wgmma/page.j2",
        "    for (ImageRing& ring : shared.image_rings) ring.open(1);\n",
        "",
        "Their mbarriers count from anything.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: rows of cells are as long as columns",
        "templates/families/stem_wgmma/bytes/image.j2",
        "cell[CELLS_H][CELLS_W]",
        "cell[CELLS_W][CELLS_H]",
        "The next row lies elsewhere than a tap looks.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: steps have the filters of the warp beside",
        "templates/families/stem_wgmma/multiply.j2",
        "args.fragments + first + i * 4 * FILTER_WORDS",
        "args.fragments + first + i * FILTER_WORDS",
        "Each of four warps has its own of every step.",
        (STAGED,),
    ),
    Mutant(
        "stem_wgmma: threads wait at what nobody has initialised",
        "templates/families/wgmma/jobs.j2",
        "    tile::barrier();\n",
        "",
        "One of them initialises the mbarriers.",
        (STAGED,),
    ),
)

OF_PLAN = (
    Mutant(
        "stem_wgmma: a window has no tap beyond the middle of its last cell",
        "generator/families/stem_wgmma.py",
        "ceil_div(above - top + problem.r, height)",
        "(above - top + problem.r) // height",
        "The last cell may have one row of the filter.",
        (STEPS,),
    ),
    Mutant(
        "stem_wgmma: rows that end within a chunk are served",
        "generator/families/stem_wgmma.py",
        "if problem.w * problem.pixel_bytes % CHUNK or problem.w * t.x.bytes % 4:",
        "if problem.w * t.x.bytes % 4:",
        "TMA takes whole chunks alone.",
        (SERVED,),
    ),
    Mutant(
        "stem_wgmma: strides of one are served",
        "generator/families/stem_wgmma.py",
        "problem.stride != (CELL, CELL) or",
        "",
        "Neighbouring outputs would look at the same cells.",
        (SERVED,),
    ),
    Mutant(
        "stem_wgmma: images begin with their first cell",
        "generator/families/stem_wgmma.py",
        "return -self.before[1] * problem.pixel_bytes % CHUNK",
        "return 0",
        "Copies begin with whole chunks.",
        (STAGED,),
    ),
)

OF_COST = (
    Mutant(
        "stem_wgmma cost: outputs take nothing while others are multiplied",
        "generator/families/stem_wgmma.py",
        "products + PORTS * made, 3)",
        "products, 3)",
        "Both use the registers' ports.",
        (COST,),
    ),
    Mutant(
        "stem_wgmma cost: lanes store as fast as TMA",
        "generator/families/stem_wgmma.py",
        "stored = 0 if plan.staged else",
        "stored = 0 if True else",
        "They store two channels at a time, or one.",
        (COST,),
    ),
)

MUTANTS = (*OF_PAGE, *OF_PARTS, *OF_PLAN, *OF_COST)
