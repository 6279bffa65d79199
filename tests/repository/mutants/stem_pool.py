"""Mutants of the family stem_pool: its page, its plan, and its cost."""

from mutants.mutant import Mutant

TESTS = "test_stem_pool.py"
STAGED, BEFORE, PAIRS, TALL, WIDE = (
    f"{TESTS}::test_nothing_is_left_out[{name}]" for name in ("staged", "before", "pairs", "tall", "wide")
)
ALONE = f"{TESTS}::test_warps_of_a_consumer_need_not_go_together[uneven]"
SERVED = f"{TESTS}::test_what_it_does_not_serve"
RANDOM = f"{TESTS}::test_a_random_config"
COST = "test_pool_cost.py"

OF_PAGE = (
    Mutant(
        "stem_pool: one warp of a consumer releases for all",
        "pool",
        "shared.ring.open(4);  // the warps of a consumer",
        "shared.ring.open(1);",
        "Others may not have seen that the window was there.",
        (ALONE,),
    ),
    Mutant(
        "stem_pool: what stands for no output is above the least sums",
        "pool_sums",
        "LOWEST = -(1 << 30);",
        "LOWEST = -(1 << 20);",
        "A window that reaches beyond the outputs has no sum of 300 products of the least bytes.",
        (f"{TESTS}::test_the_least_sums_are_above_what_stands_for_no_output",),
    ),
    Mutant(
        "stem_pool: products begin before their window is there",
        "pool_consume",
        "        shared.ring.wait(at);\n",
        "",
        "The cells may be those of a tile before.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: a consumer makes the tiles of the other as well",
        "consume",
        "tiles.advance_consumer();",
        "tiles.advance();",
        "Each has strips of its own.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: both consumers have the same strips",
        "strip",
        "first_strip() + consumer",
        "first_strip()",
        "Half of the windows are nobody's.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: blocks of other channels have other strips",
        "first_strip",
        "tile::block_x() / CHANNEL_TILES) * CONSUMERS",
        "tile::block_x()) * CONSUMERS",
        "Then some channels of a strip are nobody's.",
        (PAIRS,),
    ),
    Mutant(
        "stem_pool: padding above may be the largest",
        "leave_out_padding",
        "if (row < 0) {",
        "if (false) {",
        "What the convolution gives there is in no window.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: the first window begins with what was left of another strip",
        "find_largest",
        "tiles.along == 0 && window == 0",
        "false",
        "The column left of the image is padding.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: edges are read while others are written",
        "find_largest",
        "last ? 1 - half : half",
        "half",
        "The last one is the next tile's.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: outputs are staged where those before are read",
        "write_largest",
        "    stores.half = 1 - stores.half;\n",
        "",
        "TMA may still read them.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: outputs are stored before all are staged",
        "write_largest",
        "    tile::warpgroup_barrier(consumer);  // all of them are there, and those before have left\n",
        "",
        "Other warps may still write theirs.",
        (STAGED,),
    ),
)

OF_PLAN = (
    Mutant(
        "stem pool: the pool's padding may exceed a problem's limits",
        "Looked.of",
        "except ValueError as error:",
        "except ArithmeticError as error:",
        "With the padding as outputs the problem is larger than one may be, and lookup raises ValueError.",
        ("test_family.py",),
    ),
    Mutant(
        "stem_pool: no tile goes before the first",
        "Looked.of",
        "first = -ACROSS if s == 3 and problem.window_pad[1] == 0 else 0",
        "first = 0",
        "Where there is no padding, the first window begins with a column that nobody computes.",
        (BEFORE,),
    ),
    Mutant(
        "stem_pool: windows begin where the convolution does",
        "Looked.of",
        "above, ahead = problem.window_pad[0],",
        "above, ahead = 0,",
        "They begin with the pool's padding.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: padding of zero points is zeros below",
        "Looked.of",
        "bottom = CELL * (rows - 1) + problem.r - problem.h - top",
        "bottom = 0",
        "What windows look at has rows of the pool's padding.",
        (RANDOM, STAGED, TALL),
        equivalent="sums below the convolution's last row are left out, whatever they are",
    ),
    Mutant(
        "stem_pool: functions that turn round are served",
        "why_none",
        "if q.activation not in IN_ORDER or q.table:",
        "if q.activation not in IN_ORDER:",
        "A table need not keep the order of sums.",
        (SERVED,),
    ),
    Mutant(
        "stem_pool: windows that begin two pixels early are served",
        "why_none",
        "if pad > size - 2:",
        "if pad > size - 1:",
        "Their first pixel is not the one in front of a pair.",
        (SERVED,),
    ),
)

OF_COST = (
    Mutant(
        "stem_pool cost: outputs take nothing while others are multiplied",
        "_tile",
        "products + made, 3)",
        "products, 3)",
        "Both use the registers' ports.",
        (COST,),
    ),
)

MUTANTS = (*OF_PAGE, *OF_PLAN, *OF_COST)
