"""Mutants of what blocks send each other, wait for and make visible: the CPU device gives all of it a meaning."""

from mutants.mutant import Mutant
from mutants.named import fence

CLUSTER, SCRATCH = "templates/combine/cluster.j2", "templates/combine/scratch.j2"
SESSIONS = "tests/qconv/network/test_overlaps.py::test_a_launch_overlaps_where_that_gains"
CHAINED = "tests/qconv/network/run/test_chained.py::test_its_launch_overlaps_where_that_gains"
TWO = "tests/qconv/problem/test_chain.py::test_each_of_two_launches_overlaps"
OVERLAPS = "tests/templates/test_fences.py::test_a_launch_waits_for_the_one_before"

# Pages whose launches overlap, the line that waits, and the plan of test_fences that shows it.
INCLUDED = '//% include overlap ~ "/wait_on_dependency.j2"\n'
CALLED = "    tile::wait_on_dependency();\n"
WAITS = {
    "depthwise": ("templates/families/depthwise/page.j2", INCLUDED, "depthwise"),
    "gemv": ("templates/families/gemv.j2", INCLUDED, "gemv"),
    "fused": ("templates/families/fused/page.j2", CALLED, "dw, pw"),
    "first of all": ("overlap/begin.j2", CALLED, "table"),
}
OVERLAPPING = tuple(
    Mutant(
        f"{name}: a launch reads what the one before still writes",
        page,
        wait,
        "",
        "Launches overlap until they wait.",
        (f"{OVERLAPS}[{plan}]",),
    )
    for name, (page, wait, plan) in WAITS.items()
)

# Layers of a session, and the case of tests/qconv/network/test_overlaps.py that has each.
OF_SESSIONS = {
    "layers/pooling": "max pool",
    "layers/binary": "sum",
    "layers/table": "table",
    "layers/concatenation": "concat",
    "layers/upsampling": "pad",
    "layers/argmax": "argmax",
    "layers/shuffle": "shuffle",
    "layers/boundary": "real numbers",
    "layers/copied": "frames",
    "run/chained": "",
}
IN_SESSIONS = tuple(
    Mutant(
        f"{module.partition('/')[2]}: no launch of a session's overlaps",
        f"src/qconv/network/{module}.py",
        "packed.in_sequence(",
        "packed(",
        "One that does not is a wall for both neighbours.",
        (f"{SESSIONS}[{layer}-True]" if layer else f"{CHAINED}[True]",),
    )
    for module, layer in OF_SESSIONS.items()
)

MUTANTS = (
    Mutant(
        "cluster: fewer bytes than are sent",
        CLUSTER,
        "shared.mbarrier.expect(units * SPLIT * BYTES);",
        "shared.mbarrier.expect(units * (SPLIT - 1) * BYTES);",
        "A block adds up products that have not all come.",
        (fence("cluster"),),
    ),
    Mutant(
        "cluster: as many units for every block",
        CLUSTER,
        "(UNITS - rank + SPLIT - 1) / SPLIT",
        "UNITS / SPLIT",
        "The first blocks of a cluster have one vector of outputs more.",
        (fence("cluster, odd"),),
    ),
    Mutant(
        "cluster: sent before it is expected",
        CLUSTER,
        "    tile::wait_for_cluster();  // every block has initialised its mbarrier\n",
        "",
        "Bytes arrive at a barrier that is not there yet.",
        (fence("cluster"),),
    ),
    Mutant(
        "cluster: nobody waits for the others' sums",
        CLUSTER,
        "    shared.mbarrier.wait_for_sent();\n",
        "",
        "A block adds up products that have not come.",
        (fence("cluster"),),
    ),
    Mutant(
        "cluster: a unit past the last",
        CLUSTER,
        "        if (UNITS % SPLIT != 0 && unit >= UNITS) return;\n",
        "",
        "A block finishes outputs that no lane has.",
        (fence("cluster, odd"),),
    ),
    Mutant(
        "cluster: the sums of one block are left out",
        CLUSTER,
        "for (int block = 0; block < SPLIT; ++block) {",
        "for (int block = 1; block < SPLIT; ++block) {",
        "Every block of a cluster has a part of the sums.",
        (fence("cluster"),),
    ),
    Mutant(
        "scratch: sums are not published",
        SCRATCH,
        "    tile::publish();\n    tile::barrier();\n",
        "    tile::barrier();\n",
        "The last block may take sums without what this one has added.",
        (fence("scratch"),),
    ),
    Mutant(
        "async: a launch reads what the one before still writes",
        "templates/loader/async.j2",
        "        tile::wait_on_dependency();\n",
        "",
        "Launches overlap until they wait.",
        (OVERLAPS,),
    ),
    Mutant(
        "of tile: the first reads what is not shown",
        "templates/families/fused/page.j2",
        "            first.fence_input();\n",
        "",
        "The async proxy sees what threads wrote only after their fences.",
        (fence("dense, pw"),),
    ),
    Mutant(
        "of tile: the second reads what is not shown",
        "templates/families/fused/page.j2",
        "        second.fence_input();\n",
        "",
        "The async proxy sees what threads wrote only after their fences.",
        (fence("dw, pw, fetched"),),
    ),
    Mutant(
        "of tile: the third reads what is not shown",
        "templates/families/fused/page.j2",
        "        third.fence_input();\n",
        "",
        "The async proxy sees what threads wrote only after their fences.",
        (fence("pw, dense, pw"),),
    ),
    Mutant(
        "of tile: clusters send what is not shown",
        "templates/families/fused/kernel/cluster.j2",
        "        tile::fence_proxy_async();  // for the bytes that the block sends, and for warpgroups\n",
        "",
        "A copy in bulk reads through the async proxy.",
        (fence("dw, pw, cluster"),),
    ),
    Mutant(
        "teams: weights are not shown",
        "templates/families/fused/kernel/teams.j2",
        "//% if on_wgmma\n    tile::fence_proxy_async();\n//% endif\n",
        "",
        "The async proxy sees what threads wrote only after their fences.",
        (fence("dense, pw, teams"),),
    ),
    Mutant(
        "of tile: nobody waits for the cluster's bytes",
        "templates/families/fused/kernel/cluster.j2",
        "        shared.mbarrier.wait_for_phase(team.phase);\n",
        "",
        "The second convolution begins before its input has come.",
        (fence("dw, pw, cluster"),),
    ),
    Mutant(
        "of tile: the next tile's bytes are not expected",
        "templates/families/fused/kernel/cluster.j2",
        "            if (tile::thread() == 0) shared.mbarrier.expect_next(part.bytes_of_others());\n",
        "",
        "A phase that expects nothing never ends.",
        (fence("dw, pw, cluster"),),
    ),
    Mutant(
        "of tile: fetched weights are read before they are there",
        "templates/families/fused/weights/fetched.j2",
        "{ smem.mbarrier.wait(); }",
        "{}",
        "A fetch is waited for before its bytes are read.",
        (fence("dw, pw, fetched"),),
    ),
    *OVERLAPPING,
    *IN_SESSIONS,
    Mutant(
        "executable: a fence for what reads no weights",
        "instances/load/executable.py",
        "executable.plan.overlaps and bool(weights)",
        "executable.plan.overlaps",
        "It would cost every call of a one-liner.",
        ("tests/instances/load/test_executable.py::test_what_has_no_weights_needs_no_fence",),
    ),
    Mutant(
        "waiting: no kernel overlaps",
        "generator/plan.py",
        "return self.target.overlaps_launches",
        "return False",
        "A kernel that waits by itself hides what a launch costs.",
        (f"{OVERLAPS}[table]",),
    ),
    Mutant(
        "pair: the first of two does not overlap",
        "instances/load/pair.py",
        "overlap and self.first.gains_by_overlap",
        "False",
        "Each of the two waits for what was launched before it.",
        (TWO,),
    ),
    Mutant(
        "pair: the second of two does not overlap",
        "instances/load/pair.py",
        "overlap and self.second.gains_by_overlap",
        "False",
        "Each of the two waits for what was launched before it.",
        (TWO,),
    ),
)
