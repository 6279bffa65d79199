"""Mutants of blocks that have some channels each, the same in both layers of a pair."""

from mutants.mutant import Mutant

SLICES = "tests/templates/test_fused_slices.py"

MUTANTS = (
    Mutant(
        "slices: the intermediate begins with the first channel of all",
        "templates/families/fused/sink/tile.j2",
        "const int of_block = k + i - first_k;",
        "const int of_block = k + i;",
        "A block has room for its own channels alone.",
        (f"{SLICES}::test_it_is_exact[warps]",),
    ),
    Mutant(
        "slices: the depthwise layer looks at the first channel of all",
        "templates/families/fused/depthwise/patches.j2",
        "BY_SLICES ? own.k - begin_k(team) : own.k;",
        "own.k;",
        "The block's channels lie at the beginning of its intermediate.",
        (f"{SLICES}::test_it_is_exact[warps]",),
    ),
    Mutant(
        "slices: every block's begin with the first channel",
        "templates/families/fused/sink/bordered_tile.j2",
        "first_k(BY_SLICES ? team.cluster_block * (${ gives | upper }_CHUNKS * Y_CHUNK) : 0)",
        "first_k(0)",
        "Blocks have different channels.",
        (f"{SLICES}::test_it_is_exact[warps]",),
    ),
    Mutant(
        "slices: the depthwise layer's are shared evenly",
        "generator/families/fused/depthwise.py",
        "    if config.slice_k:\n        return config.slice_k\n",
        "",
        "Slabs of the layer before may not be.",
        (f"{SLICES}::test_a_block_keeps_its_own_channels_alone[warps]",),
    ),
    Mutant(
        "slices: room for all channels",
        "generator/families/fused/config.py",
        "given = chunks(slice_k or layers[producer].k, ",
        "given = chunks(layers[producer].k, ",
        "What a block does not need it does not ask for.",
        (f"{SLICES}::test_a_block_keeps_its_own_channels_alone[warps]",),
    ),
    Mutant(
        "slices: blocks of a cluster",
        "generator/families/fused/plan.py",
        "if target.bulk_copies and not sliced else 1",
        "if target.bulk_copies else 1",
        "They send each other nothing.",
        (f"{SLICES}::test_a_block_keeps_its_own_channels_alone[warpgroups]",),
    ),
    Mutant(
        "slices: as few as clusters",
        "generator/families/fused/plan.py",
        "usable = int(0.9 * room) if cluster > 2 else room",
        "usable = int(0.9 * room) if config.cluster_blocks > 2 else room",
        "Blocks by themselves fill all multiprocessors.",
        (f"{SLICES}::test_as_many_blocks_are_resident_as_without_clusters",),
    ),
    Mutant(
        "slices: half a chunk",
        "generator/families/fused/plan.py",
        'if name == "first" and blocks[name] > 1 and layers[name].block_k % whole:',
        "if False:",
        "A chunk of 16 channels is of one block.",
        (f"{SLICES}::test_slices_are_whole_chunks",),
    ),
    Mutant(
        "slices: in the space as clusters are",
        "generator/families/fused/config.py",
        "not (sliced or cluster_blocks in CLUSTERS)",
        "not cluster_blocks in CLUSTERS",
        "Any number of blocks may share the channels.",
        (f"{SLICES}::test_the_space_has_them_where_a_depthwise_layer_comes_last",),
    ),
)
