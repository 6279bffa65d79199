"""Mutants of how channels that fill no vector are loaded and stored."""

from mutants.mutant import Mutant
from mutants.named import special

STORES = "test_nvidia_code.py::test_channels_that_fill_no_vector_move_in_the_largest_parts_that_do"

MUTANTS = (
    Mutant(
        "stem: channels that fill no vector of a lane are written one by one",
        "families/stem/page.j2",
        "K % LANE_K == 0 ? LANE_K : (K | LANE_K) & -(K | LANE_K);",
        "K % LANE_K == 0 ? LANE_K : 1;",
        "A layer of 40 channels then takes six times as long.",
        (f"{STORES}[stem, 40 channels]",),
    ),
    Mutant(
        "depthwise: channels that are no multiple of four are loaded one by one",
        "load_k",
        "return gcd(problem.c, config.vector) if problem.k_group == 1 else 1",
        "return 4 if problem.c % 4 == 0 and problem.k_group == 1 else 1",
        "A layer of 906 channels then takes 1.8 times as long.",
        (f"{STORES}[depthwise, 906 channels]",),
    ),
    Mutant(
        "depthwise: the part behind the last channel is that of the next pixel",
        "load_pixel",
        "(k + i < K ? k + i : K - LOAD_K) / K_GROUP",
        "(k + i) / K_GROUP",
        "At the end of the array this reads past it.",
        (special("depthwise, pairs"),),
    ),
)
