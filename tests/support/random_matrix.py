"""Random problems and configs for the matrix instructions: the shapes that they serve, and every value of each choice.

The decks and quantizations are those of `random_problems`, but most problems fill tiles, take several steps, and have
channels for every width of copies.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

from random_problems import PADS, Decks, quantization
from wanted import Wanted

from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.mma.config import CHOICES, configs
from qconv.generator.families.mma.plan import MmaPlan, plan
from qconv.problem.convolution import Conv2d
from qconv.targets.target import TARGETS, Target

# One architecture per set of a warp's matrix instructions.
EMULATIONS = [
    entry.name
    for entry in TARGETS.values()
    if entry.vendor == "cpu" and entry.instructions and entry.warpgroup is None and entry.tensor_memory is None
]
MOST_OPERATIONS = 20_000_000

FILTERS = ((1, 1), (1, 1), (1, 3), (3, 1), (2, 2), (3, 2), (3, 3), (3, 3), (3, 3), (4, 5), (5, 5), (7, 7))
# Channels and filters per group, and groups: all widths of copies, one step and many, and whole steps per tap.
CHANNELS = (1, 3, 4, 5, 8, 12, 16, 17, 24, 32, 33, 48, 64, 72, 96, 100, 128, 192, 256)
FILTER_COUNTS = (1, 3, 5, 8, 15, 16, 24, 32, 33, 40, 48, 64, 65, 80, 96, 112, 128, 130, 144, 160, 256)
GROUPS = (1, 1, 1, 1, 1, 2, 3, 4, "depthwise")
IMAGES = ((1, 1), (1, 7), (3, 4), (5, 5), (7, 6), (8, 8), (9, 13), (12, 12), (14, 11), (16, 17), (20, 20))
# Large enough for a tile swizzle, which small weights do not need: once with a last strip as wide as the others, and
# once with a narrower one.
SWIZZLED = Conv2d(2, 16, 16, 256, 256, 3, 3, pad=(1, 1, 1, 1))
RAGGED = Conv2d(2, 16, 17, 256, 256, 3, 3, pad=(1, 1, 1, 1))
# Plans of one problem that are checked for a feature, among those whose configs may have it.
MOST_TRIED = 8


def served(problem: Conv2d, target: Target) -> bool:
    """Return true if some matrix instruction of the target multiplies these types."""
    q = problem.quantization
    return any(i.accepts(q.x_type, q.w_type) and i.accepts(q.w_type, q.x_type) for i in target.instructions)


def matrix_problems(seed: int, count: int, target: Target) -> list[Conv2d]:
    """Return problems whose types the target's instructions multiply: signed ones for those that support no others."""
    rng = random.Random(f"matrices {seed} {target.name}")
    decks = Decks(rng)
    return [_problem(rng, decks, target) for _ in range(count)]


def _problem(rng: random.Random, decks: Decks, target: Target) -> Conv2d:
    q = quantization(decks)
    r, s = decks.deal("filter", FILTERS)
    groups, c, k = decks.deal("groups", GROUPS), decks.deal("c", CHANNELS), decks.deal("k", FILTER_COUNTS)
    if groups == "depthwise":
        groups, c, k = decks.deal("depthwise", (3, 8, 16)), 1, decks.deal("multiplier", (1, 2, 4))
    h, w = decks.deal("image", IMAGES)
    dilation = (decks.deal("dilation_h", (1, 1, 1, 2)), decks.deal("dilation_w", (1, 1, 1, 3)))
    stride = (decks.deal("stride_h", (1, 1, 2)), decks.deal("stride_w", (1, 1, 1, 3)))
    spans = ((r - 1) * dilation[0] + 1, (s - 1) * dilation[1] + 1)
    kind = decks.deal("pad", PADS)
    pad = {
        "none": (0, 0, 0, 0),
        "same": (spans[0] // 2, spans[1] // 2) * 2,
        "any": tuple(rng.randint(0, 4) for _ in range(4)),
    }[kind]
    problem = Conv2d(
        n=decks.deal("n", (1, 1, 2, 3)),
        h=max(h, spans[0] - pad[0] - pad[2]),
        w=max(w, spans[1] - pad[1] - pad[3]),
        c=groups * c,
        k=groups * k,
        r=r,
        s=s,
        stride=stride,
        dilation=dilation,
        pad=pad,
        groups=groups,
        layout=decks.deal("layout", ("nhwc", "nhwc", "nhwc", "nchw")),
        quantization=q,
    )
    if not served(problem, target):
        problem = replace(problem, quantization=replace(q, x_type="int8", w_type="int8"))
    return _smaller(problem)


def _smaller(problem: Conv2d) -> Conv2d:
    """Reduce images, groups and channels until the CPU device finishes quickly."""
    while problem.operations > MOST_OPERATIONS:
        if problem.n > 1:
            problem = replace(problem, n=1)
        elif problem.groups > 1:
            problem = replace(problem, groups=1, c=problem.c_group, k=problem.k_group)
        elif problem.k > 64:
            problem = replace(problem, k=problem.k - 48)
        else:
            problem = replace(problem, c=problem.c // 2)
    return problem


def matrix_plan(problem: Conv2d, target: Target, seed: object, **wanted: int) -> MmaPlan:
    """Return a feasible plan with these values; the other fields are drawn in random order from the values that
    remain."""
    rng = random.Random(f"config {seed} {problem} {target.name}")
    left = list(configs(problem, target, CHOICES | {name: (value,) for name, value in wanted.items()}))
    while left:
        among = left
        for name in rng.sample(list(CHOICES), len(CHOICES)):
            value = rng.choice(sorted({getattr(config, name) for config in among}))
            among = [config for config in among if getattr(config, name) == value]
        (config,) = among
        try:
            return plan(problem, config, target)
        except Infeasible:  # refused for a reason that only the whole config determines, such as shared memory
            left.remove(config)
    raise Infeasible(f"no config of mma with {wanted} can serve {problem} on {target.name}")


def asked_plan(problem: Conv2d, target: Target, seed: object, feature: Wanted) -> MmaPlan:
    """Return a plan that has the feature: the first in random order."""
    rng = random.Random(f"asked {seed} {problem} {target.name}")
    choices = {name: tuple(feature.asks.get(name, values)) for name, values in CHOICES.items()}
    shuffled = {name: tuple(rng.sample(values, len(values))) for name, values in choices.items()}
    tried = 0
    for config in configs(problem, target, shuffled):
        with suppress(Infeasible):  # refused for a reason that only the whole config determines, such as shared memory
            made = plan(problem, config, target)
            if feature.has(made):
                return made
            tried += 1
            if tried == MOST_TRIED:
                break
    raise Infeasible(f"no config of mma that was tried has the feature on {target.name} for {problem}")


def constants(made: Plan) -> dict[str, int]:
    """Return the source's constants by name."""
    return {constant.name: constant.value for group in made.constants.values() for constant in group}
