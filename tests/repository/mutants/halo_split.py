"""Mutants of the family halo_split: which channels, rows and sums are of which block of a cluster."""

from mutants.mutant import Mutant

PLAN = "generator/families/halo/split.py"
EXCHANGE = "templates/families/halo/exchange.j2"
TESTS = "tests/templates/test_halo_split.py"
HALVES, QUARTERS, SLABS = (f"{TESTS}::test_nothing_is_left_out[{name}]" for name in ("halves", "quarters", "slabs"))
CLUSTERS = f"{TESTS}::test_clusters_of_four_do_not_fill_a_device"


def serves(case: str) -> str:
    return f"{TESTS}::test_what_it_does_not_serve[{case}]"


OF_PLAN = (
    Mutant(
        "halo split: a part is made a problem before it is known to be smaller",
        "generator/families/halo/split.py",
        "    part = part_channels(problem, config.split)\n",
        "    part = part_of(problem, config.split).c\n",
        "The channels of a large image are rounded up beyond the limit of problems, and lookup raises ValueError.",
        ("tests/generator/families/test_families.py",),
    ),
    Mutant(
        "halo_split: a block may have no channels",
        "generator/families/halo/split.py",
        "if (config.split - 1) * part >= problem.c:",
        "if False:",
        "It would only wait for the others.",
        (serves("change1-config1-split=2: parts of 32 channels are fewer for the problem's 32; split less"),),
    ),
    Mutant(
        "halo_split: eight blocks may have any part",
        "generator/families/halo/split.py",
        "part_bytes % ROWS[-1]:",
        "part_bytes % STEP:",
        "They would exchange longer than they multiply.",
        (serves("change4-config4-split=8: parts of 64 bytes are no whole slabs of 128; split by 4 at most"),),
    ),
    Mutant(
        "halo_split: blocks make single rows",
        "generator/families/halo/split.py",
        "PAIR_OF_ROWS = 2",
        "PAIR_OF_ROWS = 1",
        "A warp stores two at least.",
        (serves("change3-config3-rows=4: each of split=4 blocks makes .* whole pairs of rows; give a multiple of 8"),),
    ),
    Mutant(
        "halo_split: clusters of four on all multiprocessors",
        "generator/families/halo/split.py",
        "if split > 2 else target.processors",
        "if split > 8 else target.processors",
        "They do not fit: some would wait until the others have ended.",
        (CLUSTERS,),
    ),
    Mutant(
        "halo_split: as many blocks as there are clusters",
        "generator/families/halo/plan.py",
        "(self.blocks * cluster, 1, 1)",
        "(self.blocks, 1, 1)",
        "A cluster has several.",
        (CLUSTERS,),
    ),
)

OF_EXCHANGE = (
    Mutant(
        "halo_split: sums go to the block before",
        "templates/families/halo/exchange.j2",
        "tile::send(place, received, row / OWN_ROWS, sent)",
        "tile::send(place, received, (row / OWN_ROWS + 1) % SPLIT, sent)",
        "Rows are of the block that makes their outputs.",
        (QUARTERS,),
    ),
    Mutant(
        "halo_split: sums are added up before they are there",
        "templates/families/halo/exchange.j2",
        "    exchange.received.wait_for_sent(turn);\n",
        "",
        "Other blocks send them.",
        (HALVES,),
    ),
    Mutant(
        "halo_split: sums overwrite those that are read",
        "templates/families/halo/exchange.j2",
        "    if (turn > 0) exchange.emptied.wait_for_phase(turn - 1);\n",
        "",
        "A block waits until the others have read what it sent.",
        (f"{TESTS}::test_what_is_left_out_is_found[that they have read the sums before]", HALVES),
    ),
    Mutant(
        "halo_split: as many bytes are expected as all blocks have",
        "templates/families/halo/exchange.j2",
        "sizeof sums / SPLIT * (SPLIT - 1)",
        "sizeof sums",
        "A block does not send to itself.",
        (HALVES,),
    ),
    Mutant(
        "halo_split: the first 64 channels are those of the second",
        "templates/families/halo/exchange.j2",
        "got = sums[block][m * OWN_ROWS + row]",
        "got = sums[block][row]",
        "A tile of 128 channels has two sets of rows.",
        (SLABS,),
    ),
    Mutant(
        "halo_split: consumers without a tile wait for sums",
        "templates/families/halo/exchange.j2",
        "if (Tiles().tile + consumer * BLOCKS < TILES) exchange.expect();",
        "exchange.expect();",
        "Nobody sends them any.",
        (f"{TESTS}::test_a_launch_waits_for_the_one_before",),
    ),
)

MUTANTS = (*OF_PLAN, *OF_EXCHANGE)
