"""Mutants of the family stem_pool: its page, its plan, and its cost."""

from mutants.mutant import Mutant

PAGES = "templates/conv2d/stem_pool"
PLAN = "generator/families/stem_pool.py"
TESTS = "tests/templates/test_stem_pool.py"
STAGED, BEFORE, PAIRS, TALL, WIDE = (
    f"{TESTS}::test_nothing_is_left_out[{name}]" for name in ("staged", "before", "pairs", "tall", "wide")
)
ALONE = f"{TESTS}::test_warps_of_a_consumer_need_not_go_together[uneven]"
SERVED = f"{TESTS}::test_what_it_does_not_serve"
RANDOM = f"{TESTS}::test_a_random_config"
COST = "tests/generator/families/test_stem_pool_cost.py"

OF_PAGE = (
    Mutant(
        "stem_pool: one warp of a consumer releases for all",
        "templates/families/stem_wgmma/pool.j2",
        "shared.ring.open(4);  // the warps of a consumer",
        "shared.ring.open(1);",
        "Others may not have seen that the window was there.",
        (ALONE,),
    ),
    Mutant(
        "stem_pool: what stands for no output is above the least sums",
        "templates/families/stem_wgmma/pool_sums.j2",
        "LOWEST = -(1 << 30);",
        "LOWEST = -(1 << 20);",
        "A window that reaches beyond the outputs has no sum of 300 products of the least bytes.",
        (f"{TESTS}::test_the_least_sums_are_above_what_stands_for_no_output",),
    ),
    Mutant(
        "stem_pool: products begin before their window is there",
        "templates/families/stem_wgmma/multiply.j2",
        "    shared.ring.wait(at);\n",
        "",
        "The cells may be those of a tile before.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: a consumer makes the tiles of the other as well",
        "templates/families/stem_wgmma/pool_consume.j2",
        "        tiles.advance_consumer();\n",
        "        tiles.advance();\n",
        "Each has strips of its own.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: both consumers have the same strips",
        "templates/families/stem_wgmma/pool_tiles.j2",
        "first_strip() + consumer",
        "first_strip()",
        "Half of the windows are nobody's.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: blocks of other channels have other strips",
        "templates/families/stem_wgmma/pool_tiles.j2",
        "tile::block_x() / CHANNEL_TILES) * CONSUMERS",
        "tile::block_x()) * CONSUMERS",
        "Then some channels of a strip are nobody's.",
        (PAIRS,),
    ),
    Mutant(
        "stem_pool: padding above may be the largest",
        "templates/families/stem_wgmma/pool_sums.j2",
        "    if (row < 0) {",
        "    if (false) {",
        "What the convolution gives there is in no window.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: the first window begins with what was left of another strip",
        "templates/families/stem_wgmma/pool_sums.j2",
        "tiles.along == 0 && window == 0",
        "false",
        "The column left of the image is padding.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: edges are read while others are written",
        "templates/families/stem_wgmma/pool_sums.j2",
        "last ? 1 - half : half",
        "half",
        "The last one is the next tile's.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: outputs are staged where those before are read",
        "templates/families/stem_wgmma/pool_staged.j2",
        "    stores.half = 1 - stores.half;\n",
        "",
        "TMA may still read them.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: outputs are stored before all are staged",
        "templates/families/halo/staged_tiles.j2",
        "    tile::warpgroup_barrier(consumer);\n",
        "",
        "Other warps may still write theirs.",
        (STAGED,),
    ),
)

OF_PLAN = (
    Mutant(
        "stem pool: the pool's padding may exceed a problem's limits",
        "generator/families/stem_pool.py",
        "        except ValueError as error:\n",
        "        except ArithmeticError as error:\n",
        "With the padding as outputs the problem is larger than one may be, and lookup raises ValueError.",
        ("tests/generator/families/test_families.py",),
    ),
    Mutant(
        "stem_pool: no tile goes before the first",
        "generator/families/stem_pool.py",
        "first = -ACROSS if s == 3 and problem.window_pad[1] == 0 else 0",
        "first = 0",
        "Where there is no padding, the first window begins with a column that nobody computes.",
        (BEFORE,),
    ),
    Mutant(
        "stem_pool: windows begin where the convolution does",
        "generator/families/stem_pool.py",
        "above, ahead = problem.window_pad[0], ",
        "above, ahead = 0, ",
        "They begin with the pool's padding.",
        (STAGED,),
    ),
    Mutant(
        "stem_pool: padding of zero points is zeros below",
        "generator/families/stem_pool.py",
        "bottom = CELL * (rows - 1) + problem.r - problem.h - top",
        "bottom = 0",
        "What windows look at has rows of the pool's padding.",
        (RANDOM, STAGED, TALL),
        equivalent="sums below the convolution's last row are left out, whatever they are",
    ),
    Mutant(
        "stem_pool: functions that turn round are served",
        "generator/families/stem_pool.py",
        "if q.activation not in IN_ORDER or q.table:",
        "if q.activation not in IN_ORDER:",
        "A table need not keep the order of sums.",
        (SERVED,),
    ),
    Mutant(
        "stem_pool: windows that begin two pixels early are served",
        "generator/families/stem_pool.py",
        "        if pad > size - 2:",
        "        if pad > size - 1:",
        "Their first pixel is not the one in front of a pair.",
        (SERVED,),
    ),
)

OF_COST = (
    Mutant(
        "stem_pool cost: outputs take nothing while others are multiplied",
        "generator/families/stem_pool.py",
        "products + made, 3)",
        "products, 3)",
        "Both use the registers' ports.",
        (COST,),
    ),
)

MUTANTS = (*OF_PAGE, *OF_PLAN, *OF_COST)
