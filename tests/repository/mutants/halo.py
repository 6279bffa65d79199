"""Mutants of the family halo: its page, its plan, its cost, and how its factors are read and its outputs stored."""

from mutants.mutant import Mutant

PAGES = "templates/conv2d/"
TESTS = "tests/templates/test_halo.py"
COST = "tests/generator/test_halo_cost.py"
STAGED, RESIDUALS, DIRECT, BORDERS, SUMS = (
    f"{TESTS}::test_nothing_is_left_out[{name}]" for name in ("staged", "residuals", "direct", "borders", "sums")
)
PIXELS, STRIDES = (f"{TESTS}::test_nothing_is_left_out[{name}]" for name in ("pixels", "strides"))
SENSE = f"{TESTS}::test_configs_that_make_no_sense"
SERVED = f"{TESTS}::test_what_it_does_not_serve"

OF_PAGE = (
    Mutant(
        "halo: windows are multiplied before they are there",
        PAGES + "halo_consume.j2",
        "        shared.ring.wait(at);\n",
        "",
        "Their bytes may be on their way.",
        (STAGED,),
    ),
    Mutant(
        "halo: one warp tells that all have seen their turn",
        PAGES + "halo_consume.j2",
        "        tile::warp_barrier();\n        if (tile::lane() == 0) shared.issued",
        "        if (tile::thread() % 32 == 0) shared.issued",
        "A lane that comes later misses a phase, and waits for ever.",
        (STAGED,),
    ),
    Mutant(
        "halo: windows are released before their products are made",
        PAGES + "halo_consume.j2",
        "        commit_products(products);\n",
        "        if (signals) shared.ring.release(at);\n        commit_products(products);\n",
        "The next window comes to lie where products read.",
        (SUMS,),
    ),
    Mutant(
        "halo: taps ignore the dilation",
        PAGES + "halo_products.j2",
        "tap / S * DILATION_H * WINDOW_W + tap % S * DILATION_W;",
        "tap / S * WINDOW_W + tap % S;",
        "Taps lie so many pixels from each other.",
        (DIRECT,),
    ),
    Mutant(
        "halo: blocks change their channels",
        PAGES + "halo_tiles.j2",
        "tile::block_x() % CHANNEL_TILES * TILE_M",
        "0",
        "The weights of a block are those of one tile of channels.",
        (SUMS,),
    ),
    Mutant(
        "halo: rows of the weights in the order of the channels",
        PAGES + "halo_rows.j2",
        "return row / 16 * 16 + row % 8 * 2 + row % 16 / 8;",
        "return row;",
        "A lane stores its two sums as neighbouring channels.",
        (DIRECT,),
    ),
    Mutant(
        "halo: outputs are not swizzled",
        PAGES + "halo_outputs.j2",
        "(chunk ^ pixel * TILE_M / 128 % (TILE_M / 16)) * 16",
        "chunk * 16",
        "The copy engine takes them as swizzled.",
        (STAGED,),
    ),
    Mutant(
        "halo: outputs leave without a fence",
        PAGES + "halo_staged.j2",
        "    tile::fence_proxy_async();\n",
        "",
        "The copy engine may not see what was written.",
        (STAGED,),
    ),
    Mutant(
        "halo: outputs are written over those that leave",
        PAGES + "halo_staged.j2",
        "    if (signals) tile::wait_for_store_reads<0>();\n    tile::warpgroup_barrier",
        "    tile::warpgroup_barrier",
        "The copy engine still reads the tile before.",
        (STAGED,),
    ),
    Mutant(
        "halo: windows are there before their residuals",
        PAGES + "halo.j2",
        "SLABS * sizeof Slab::pixel + sizeof window.residual",
        "SLABS * sizeof Slab::pixel",
        "Both come to the same slot.",
        (RESIDUALS,),
    ),
    Mutant(
        "halo: residuals are written over before they are read",
        PAGES + "halo_consume.j2",
        "//% if not residual_in_smem\n        if (signals) shared.ring.release(at);",
        "//% if true\n        if (signals) shared.ring.release(at);",
        "Their slot is free when the tile is written.",
        (PIXELS,),
    ),
    Mutant(
        "halo: a window is waited for before the turn",
        PAGES + "halo_consume.j2",
        "        // The turn first:",
        "        shared.ring.wait(at);\n        // The turn first:",
        "With fewer slots than consumers, the phase before has not completed.",
        (f"{TESTS}::test_nothing_is_left_out[slots]",),
    ),
    Mutant(
        "halo: every slab of a window is the first",
        PAGES + "halo_products.j2",
        "slab % SLABS * static_cast<int>(sizeof(Slab))",
        "0",
        "Channels behind the first 128 lie in another.",
        (PIXELS,),
    ),
    Mutant(
        "halo: tiles of outputs read as many pixels further",
        PAGES + "halo.j2",
        "tiles.column() * STRIDE_W - PAD_LEFT",
        "tiles.column() - PAD_LEFT",
        "Neighbouring outputs look at pixels a stride apart.",
        (STRIDES,),
    ),
    Mutant(
        "halo: copies have all columns of what a stride passes over",
        "generator/tensor_map.py",
        "(1, across, down, 1), swizzle)",
        "(1, 1, 1, 1), swizzle)",
        "Shared memory has room for what is read.",
        (f"{TESTS}::test_what_is_left_out_is_found[the stride]", STRIDES),
    ),
    Mutant(
        "halo: all outputs of a lane have the residual of the first",
        PAGES + "residual_word.j2",
        "byte_as_float<Residual>(word, i)",
        "byte_as_float<Residual>(word, 0)",
        "A lane has two neighbouring channels of two pixels.",
        (RESIDUALS,),
    ),
    Mutant(
        "halo: warpgroups begin before there are mbarriers",
        PAGES + "wgmma_jobs.j2",
        "    tile::barrier();\n",
        "",
        "They would wait for what nobody has initialised.",
        (STAGED,),
    ),
    Mutant(
        "halo: all words of a filter are its first",
        PAGES + "wgmma_repack.j2",
        " + index % ROW_WORDS * 4",
        "",
        "A thread copies a word.",
        (STAGED,),
    ),
    Mutant(
        "halo: residuals of pixels change places",
        PAGES + "halo_residual_direct.j2",
        "row) * OUT_W + column + e) * K",
        "row) * OUT_W + column) * K",
        "A lane has two neighbouring pixels.",
        (DIRECT,),
    ),
    Mutant(
        "halo: all pixels have the offset of inner ones",
        PAGES + "halo_outputs.j2",
        "border_of(row * OUT_W + column + e)",
        "border_of(OUT_H / 2 * OUT_W + OUT_W / 2)",
        "What x_zero adds depends on which taps lie in the image.",
        (BORDERS,),
    ),
    Mutant(
        "halo: two channels are stored where one exists",
        PAGES + "halo_direct.j2",
        "if (k + h < K) to[h]",
        "to[h]",
        "The next pixel's first channel lies there.",
        (DIRECT,),
    ),
)

OF_DEVICE = (
    Mutant(
        "windows: a row of the tile follows the one before",
        "templates/instruction/wgmma_windows_emulated.j2",
        "rows + row / 8 * group + row % 8 * ROW",
        "rows + row / 8 * 8 * ROW + row % 8 * ROW",
        "From one row of the tile to the next it is as far as a window is wide.",
        (STAGED,),
    ),
    Mutant(
        "windows: the first product of a tile adds",
        "templates/instruction/wgmma_under_way_emulated.j2",
        "adds ? static_cast<unsigned>(sum) : 0u",
        "static_cast<unsigned>(sum)",
        "Nobody has cleared the sums.",
        (STAGED,),
    ),
    Mutant(
        "windows: chunks change places by a row's number",
        "templates/instruction/wgmma_windows_emulated.j2",
        "at ^ (at >> 7) % (ROW / 16) * 16",
        "at ^ row % (ROW / 16) * 16",
        "Hardware looks at bits of the address, and a tap begins anywhere.",
        (STAGED,),
    ),
    Mutant(
        "stmatrix: pairs of the other row",
        "templates/prelude/cpu_matrices.j2",
        "word + 2 * half, 2)",
        "word + 2 * (1 - half), 2)",
        "The lower half of a word belongs to the first of two rows.",
        (STAGED,),
    ),
    Mutant(
        "a warpgroup's barrier is the block's",
        "templates/prelude/cpu.j2",
        "qconv_cpu_barrier_of_team(warpgroup, 128, line);",
        "static_cast<void>(warpgroup), static_cast<void>(line);",
        "Outputs leave before all warps have written theirs.",
        (STAGED,),
    ),
)

OF_PLAN = (
    Mutant(
        "halo: strides are served",
        "generator/halo.py",
        "if problem.stride != (1, 1) and problem.r * problem.s > 1:",
        "if problem.stride[0] != 1 and problem.r * problem.s > 1:",
        "Neighbouring outputs would look at pixels that do not follow each other.",
        (SERVED,),
    ),
    Mutant(
        "halo: sums take all registers",
        "generator/halo.py",
        "REGISTERS[config.consumers][1] - BESIDE_SUMS",
        "REGISTERS[config.consumers][1]",
        "What else a thread needs is spilled.",
        (SENSE,),
    ),
    Mutant(
        "halo: a tile of outputs is as wide as an image of another width",
        "generator/tensor_map.py",
        "strides = pixel, problem.ow * pixel, problem.oh * problem.ow * pixel",
        "strides = pixel, problem.w * pixel, problem.h * problem.w * pixel",
        "Filters without pads make smaller images.",
        (RESIDUALS,),
    ),
)

OF_COST = (
    Mutant(
        "halo cost: consumers write one after the other",
        "generator/halo_cost.py",
        "(multiplied + written) / config.consumers,",
        "multiplied + written,",
        "One multiplies while the others write.",
        (f"{COST}::test_times_are_predicted_on_the_whole",),
    ),
    Mutant(
        "halo cost: rows that are filled with zeros cost nothing",
        "generator/halo_cost.py",
        "_filled_rows(plan, plan.window_bytes) * FILLED_PIXEL)",
        "0)",
        "The copy engine takes five clocks for each.",
        (f"{COST}::test_few_channels_are_left_to_others",),
    ),
    Mutant(
        "halo cost: slots that wait for outputs are free",
        "generator/halo_cost.py",
        "(written if plan.residual_in_smem else 0)",
        "0",
        "A slot is held until its residuals have been read.",
        (f"{COST}::test_sums_of_one_tap",),
    ),
    Mutant(
        "halo cost: a stride reads every row",
        "generator/cost_units.py",
        "return problem.io_bytes - (1 - problem.r / down) * x_bytes",
        "return problem.io_bytes",
        "Rows that it passes over do not come.",
        (f"{COST}::test_a_time_of_one_tap_is_predicted",),
    ),
)

MUTANTS = (*OF_PAGE, *OF_DEVICE, *OF_PLAN, *OF_COST)
