"""Random chains of convolutions for the families that run two or three in one kernel, and configs for them.

The decks and quantizations are those of `random_problems`.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

from random_problems import Decks, quantization
from wanted import Wanted

from qconv.arithmetic.quantization import Quantization
from qconv.errors import Infeasible
from qconv.generator import FAMILIES, Config, Plan
from qconv.generator.families import Family
from qconv.generator.families.fused.config import Block, Fused
from qconv.generator.families.fused.layer import atom_of, is_depthwise
from qconv.problem.chain import Chain, chain_of
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

KINDS = ("pw", "dw", "dense", "grouped")
CHANNELS = (8, 12, 16, 64, 24, 32, 48, 20, 7, 33, 128)
FILTERS = ((3, 3), (3, 3), (3, 3), (5, 5), (1, 3), (2, 2))
IMAGES = ((7, 7), (8, 8), (9, 13), (5, 6), (14, 12), (1, 1), (16, 9))
# Small values of every field, for small images: tiles that they do not fill, and fewer blocks than tiles.
TILE = Fused(
    tile_h=4,
    tile_w=7,
    warps=4,
    blocks_per_sm=1,
    teams=1,
    cluster_blocks=1,
    weights_in_smem=0,
    on_wgmma=0,
    first_m=1,
    first_n=2,
    second_m=1,
    second_n=2,
)
SMALLEST = Block(
    **vars(replace(TILE, tile_h=2, first_n=1, second_n=1)),
    third_m=1,
    third_n=1,
)
MOST_DRAWN = 300  # configs per problem


def fused_problems(seed: int, count: int, target: Target, layers: int = 2) -> list[Chain]:
    """Return chains that the target's matrix instructions serve, with tiles that fit in its shared memory."""
    rng = random.Random(f"fused {seed}" if layers == 2 else f"block {seed}")
    decks = [Decks(rng) for _ in range(layers)]
    found: list[Chain] = []
    while len(found) < count:
        problem = _problem(rng, decks)
        served = all(is_depthwise(one) or atom_of(one, target) is not None for one in problem.layers.values())
        if served and (layers == 2 or _plan(problem, SMALLEST, target) is not None):
            found.append(problem)
    return found


def kind_of(problem: Conv2d) -> str:
    if problem.groups > 1:
        return "dw" if problem.c_group == problem.k_group == 1 else "grouped"
    return "pw" if problem.r * problem.s == 1 else "dense"


def _problem(rng: random.Random, decks: list[Decks]) -> Chain:
    """Draw a chain. Each convolution has its own decks: dealt from one deck, they would always differ in the same
    way."""
    kinds = decks[0].deal("kinds", list(itertools.product(KINDS, repeat=len(decks))))
    h, w = decks[0].deal("image", IMAGES)
    c = decks[0].deal("c", CHANNELS)
    specs = [quantization(own) for own in decks]
    for at in range(len(decks) - 1):  # an element of the intermediate tensor is a byte
        out, zero = decks[at].deal("between", [(t, z) for t in ("int8", "uint8") for z in (False, True)])
        specs[at] = _requantized(specs[at], out, zero)
        mode = replace(specs[at + 1].mode, correction="int32")
        specs[at + 1] = replace(specs[at + 1], x_type=out, x_zero_point=zero, mode=mode)
    n = decks[0].deal("n", (1, 2, 3))
    chain: list[Conv2d] = []
    for own, kind, q in zip(decks, kinds, specs, strict=True):
        chain.append(_conv(rng, own, kind, n, h, w, c, q))
        h, w, c = chain[-1].oh, chain[-1].ow, chain[-1].k
    return chain_of(chain)


def _requantized(q: Quantization, out: str, zero: bool) -> Quantization:
    if not q.requantizes:
        q = Quantization(q.x_type, q.w_type, x_zero_point=q.x_zero_point, w_zero_point=q.w_zero_point, bias=q.bias)
    return replace(q, out_type=out, y_zero_point=zero, residual="none", residual_zero_point=False)


def _conv(rng: random.Random, decks: Decks, kind: str, n: int, h: int, w: int, c: int, q: Quantization) -> Conv2d:
    k = decks.deal(f"k {kind}", CHANNELS)
    r, s = (1, 1) if kind == "pw" else decks.deal(f"filter {kind}", FILTERS)
    groups = 1
    if kind == "dw":
        k = groups = c
    elif kind == "grouped":
        groups = max(g for g in (1, 2, 3, 4, 8) if c % g == 0)
        k = groups * rng.choice((1, 2, 4, 5))
    dilation = 1 if kind == "pw" else decks.deal("dilation", (1, 1, 1, 2))
    stride = decks.deal(f"stride {kind}", (1, 1, 2))
    span_h, span_w = (r - 1) * dilation + 1, (s - 1) * dilation + 1
    pad = decks.deal("pad", (True, True, False))
    pads = (span_h // 2, span_w // 2) * 2 if pad or h < span_h or w < span_w else (0, 0, 0, 0)
    if h + 2 * pads[0] < span_h or w + 2 * pads[1] < span_w:
        pads = (span_h, span_w, span_h, span_w)
    return Conv2d(n, h, w, c, k, r, s, stride, dilation, pads, groups, quantization=q)


def fused_plan(problem: Chain, target: Target, seed: object, feature: Wanted | None = None) -> Plan:
    """Return a random plan in which each value of a choice is equally likely, where it is feasible; with `feature`, one
    that has it."""
    if feature is not None and not feature.suits(problem):
        raise Infeasible(f"{problem} cannot have the feature")
    rng = random.Random(f"{problem} {seed}")
    family = family_of(problem)
    for _ in range(MOST_DRAWN):
        values = {name: rng.choice(choices) for name, choices in family.choices.items()}
        if not target.async_copies:
            values |= {"weights_in_smem": 0, "teams": 1}
        if rng.random() < 0.2 and len(problem.LAYERS) == 2:  # few problems have slabs for several blocks
            values |= {"teams": 1, "cluster_blocks": rng.choice((2, 4, 4)), "warps": 4, "first_n": 1, "second_n": 1}
        if target.warpgroup is None:
            values["on_wgmma"] = 0
        elif rng.random() < 0.5:  # few problems have two convolutions that warpgroups can multiply
            values |= {"weights_in_smem": 2, "on_wgmma": rng.choice((1, 2, 2)), "cluster_blocks": 1}
            values |= {f"{layer}_m": 1 for layer in problem.LAYERS}
            values["tile_w"] = rng.choice((values["tile_w"], 8))  # stride 2 requires 8
        elif rng.random() < 0.3:  # few problems have slabs loaded in turn
            last = problem.LAYERS[-1]
            values |= {"teams": 1, "weights_in_smem": 0, "on_wgmma": 1, f"{last}_m": 1, f"{last}_n": 1}
        for layer, one in problem.layers.items():
            # few problems have this many channels
            if one.k > 40 and values["cluster_blocks"] == 1 and rng.random() < 0.3:
                values |= {f"{layer}_m": 1, f"{layer}_n": rng.choice((6, 10, 12))}
        if feature is not None:
            values |= {name: rng.choice(asked) for name, asked in feature.asks.items()}
        made = _plan(problem, family.config(**values), target)
        if made is not None and (feature is None or feature.has(made)):
            return made
    if feature is not None and feature.asks:
        raise Infeasible(f"no config of {family.config.family} that was tried has the feature for {problem}")
    # Small problems have few configs.
    every = list(family.configs(problem, target))
    rng.shuffle(every)
    return next(plan for config in every if (plan := _plan(problem, config, target)) is not None)


def family_of(problem: Chain) -> Family:
    return FAMILIES["fused" if len(problem.LAYERS) == 2 else "block"]


def _plan(problem: Chain, config: Config, target: Target) -> Plan | None:
    try:
        return family_of(problem).plan(problem, config, target)
    except Infeasible:
        return None
