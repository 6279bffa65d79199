"""Features of the matrix kernels' plans, and those that each architecture's random plans must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from random_matrix import asked_plan, constants, matrix_problems
from wanted import Wanted, granted

from qconv.generator import Plan
from qconv.generator.families.mma.config import CHOICES
from qconv.generator.families.mma.plan import MmaPlan
from qconv.targets.target import TARGETS, Target

# The roles of a plan, apart from its choices.
ROLES = (
    *("atom", "loader", "gathers_x", "gathers_w", "combine", "schedule", "stream_k", "split_last_wave"),
    *("prefetch_fragments", "taps_first", "gemm", "store"),
)
WIDTHS = ("X_BYTES", "W_BYTES", "VECTOR_N", "HAS_REDUCTION_REMAINDER", "PADDED")
Feature = tuple[str, Any]


def features(plan: Plan) -> set[Feature]:
    assert isinstance(plan, MmaPlan)
    known, roles, q = constants(plan), plan.roles, plan.problem.quantization
    return {
        *((name, getattr(plan.config, name)) for name in CHOICES),
        *((f"role {name}", getattr(roles, name)) for name in ROLES),
        *((name, known[name]) for name in WIDTHS),
        (f"types of {roles.atom}", (q.x_type, q.w_type)),
        ("layout", plan.problem.layout),
        ("output", q.out_type),
        ("residual", q.residual),
        ("zero points", (q.x_zero_point, q.w_zero_point)),
        ("depthwise", plan.problem.c_group == 1),
        ("groups", plan.problem.groups > 1),
    }


# Features of every architecture. Exceptions follow below.
WANTED: dict[str, tuple[Any, ...]] = {
    **CHOICES,
    "role gathers_x": (False, True),
    "role gathers_w": (False, True),
    "role combine": ("none", "scratch", "cluster"),
    "role schedule": ("tile", "persist"),
    "role stream_k": (False, True),
    "role split_last_wave": (False, True),
    "role taps_first": (False, True),
    "role gemm": (False, True),
    "role store": ("direct", "staged"),
    "X_BYTES": (1, 4, 8, 16),
    "W_BYTES": (1, 4, 8, 16),
    "VECTOR_N": (1, 2, 4, 8, 16),
    "HAS_REDUCTION_REMAINDER": (False, True),
    "PADDED": (False, True),
    "layout": ("nhwc", "nchw"),
    "output": ("int8", "uint8", "int32", "float32", "float16", "bfloat16"),
    "residual": ("none", "int8", "uint8"),
    "zero points": ((False, False), (False, True), (True, False), (True, True)),
    "depthwise": (False, True),
    "groups": (False, True),
}


def wanted(target: Target) -> set[Feature]:
    """Return every value of every choice that the architecture can use."""
    smallest = min(instruction.n for instruction in target.instructions)
    of_whole_instructions = ("tile_n", "warp_n")
    of_bytes = [at for at, instruction in enumerate(target.instructions) if instruction.accepts("int8", "int8")]
    lacks: dict[str, tuple[Any, ...]] = {
        "instruction": tuple(at for at in CHOICES["instruction"] if at not in of_bytes),
        "pipeline_stages": () if target.async_copies else CHOICES["pipeline_stages"][1:],
        "prefetch_fragments": () if target.async_copies or target.buffer_word is not None else (1,),
        "tile_swizzle_width": (8,),  # large layers only: see `test_mma_random.test_swizzled_tiles`
        "role combine": () if target.clusters else ("cluster",),
    }
    return {
        (name, value)
        for name, values in WANTED.items()
        for value in values
        if value not in lacks.get(name, ()) and not (name in of_whole_instructions and value % smallest)
    }


# Config values that produce a feature; a choice produces itself, and the rest follows from the problem.
ASKS: dict[Feature, Mapping[str, Sequence[int]]] = {
    ("role combine", "scratch"): {"split": (2, 4, 8, 16)},
    ("role combine", "cluster"): {"split": (2, 4, 8)},
    ("role schedule", "persist"): {"persist": (1, 2)},
    ("role stream_k", True): {"persist": (1, 2), "stream_k": (1,)},
    ("role split_last_wave", True): {"split_last_wave": (1, 2, 3)},
    ("role store", "staged"): {"staged": (1,)},
}
# Choices that need larger problems than a random test can afford: see `test_many_tiles` of the GPU.
OF_MANY_TILES = (
    "persist",
    "split_last_wave",
    "stream_k",
    "tile_swizzle_width",
    "role schedule",
    "role stream_k",
    "role split_last_wave",
)


def asked_for(features_wanted: set[Feature]) -> dict[str, Wanted]:
    """Return the wanted features, first those that a config must be made for: those that follow from the problem come
    with it."""
    ordered = sorted(features_wanted, key=lambda feature: (not _asks(feature), str(feature)))
    return {f"{name}={value}": Wanted(_has(name, value), _asks((name, value))) for name, value in ordered}


def _asks(feature: Feature) -> Mapping[str, Sequence[int]]:
    name, value = feature
    return {name: (value,)} if name in CHOICES else ASKS.get(feature, {})


def _has(name: str, value: Any) -> Any:
    return lambda plan: (name, value) in features(plan)


Place = tuple[str, int]  # the target and the number of a problem


@lru_cache
def asked(names: tuple[str, ...], seed: int, count: int, of: frozenset[Feature]) -> tuple[dict[Place, Plan], list[str]]:
    """Return plans that together have these features, and those that none of `count` problems per target can have."""
    problems = {
        (name, index): problem
        for name in names
        for index, problem in enumerate(matrix_problems(seed, count, TARGETS[name]))
    }
    # In turn, so that each target has some.
    places = sorted(problems, key=lambda place: (place[1], names.index(place[0])))

    def find(place: Place, feature: Wanted) -> Plan:
        return asked_plan(problems[place], TARGETS[place[0]], place, feature)

    return granted(asked_for(set(of)), places, find)


def asked_of_gpu(target: Target, seed: int, count: int) -> tuple[dict[Place, Plan], list[str]]:
    """Return the plans for the random problems of a GPU."""
    of = frozenset(feature for feature in wanted(target) if feature[0] not in OF_MANY_TILES)
    return asked((target.name,), seed, count, of)
