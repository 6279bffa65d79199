"""Random convolutions of floats, with the shapes of the random problems of integers, and plans of the families that
multiply floats."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from random_fused import fused_problems
from random_matrix import matrix_plan, matrix_problems
from random_problems import Decks, problems
from random_special import special_plan, special_problems

from qconv import Conv2d, Mode, Quantization
from qconv.arithmetic.quantization import ACTIVATIONS, OUT_TYPES, RESIDUALS
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.fused.layer import is_depthwise
from qconv.problem.chain import Chain, chain_of
from qconv.targets.target import Target

TYPES = (
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
    ("float8_e4m3fn", "float8_e4m3fn"),
    ("float8_e4m3fn", "float8_e5m2"),
    ("float8_e5m2", "float8_e4m3fn"),
    ("float32", "float32"),
    ("tfloat32", "tfloat32"),
)
FLAGS = (False, True)
# Families that add parts of the sums of 8-bit floats up in fp32, or all of them.
PROMOTING = ("simt", "depthwise", "mma", "wgmma")
OUTPUTS = tuple(name for name in OUT_TYPES if name != "int32")


def float_quantization(
    decks: Decks, types: tuple[tuple[str, str], ...] = TYPES, promotes: bool = False
) -> Quantization:
    """Deal a quantization of floats. What integers alone have is left out."""
    x_type, w_type = decks.deal(f"types {types}", types)
    out_type, residual = decks.deal("out_type", OUTPUTS), decks.deal("residual", ("none", "none", *RESIDUALS))
    return Quantization(
        x_type=x_type,
        w_type=w_type,
        out_type=out_type,
        per_channel=decks.deal("per_channel", FLAGS),
        y_zero_point=decks.deal("y_zero_point", FLAGS) and out_type in ("int8", "uint8"),
        bias=decks.deal("bias", ("none", "float32")),
        activation=decks.deal("activation", ACTIVATIONS),
        residual=residual,
        residual_zero_point=residual in ("int8", "uint8") and decks.deal("residual_zero_point", FLAGS),
        mode=Mode(residual_add=_residual_add(decks, out_type, residual)),
        promoted_sums=promotes and x_type in FLOAT8 and decks.deal("promoted_sums", FLAGS),
    )


def _residual_add(decks: Decks, out_type: str, residual: str) -> str:
    """Deal whether the output, an 8-bit float, is rounded before the residual is added."""
    sums = out_type in FLOAT8 and residual != "none"
    return str(decks.deal("residual_add", ("multiply_add", "dequantized", "dequantized"))) if sums else "multiply_add"


def float_problems(family: str, seed: int, count: int, target: Target) -> Iterator[Conv2d]:
    """Yield problems with shapes of those that the family serves in integers."""
    decks = Decks(random.Random(f"floats {family} {seed}"))
    if family == "simt":
        shapes = problems(seed, count)
    elif family == "mma":
        shapes = matrix_problems(seed, count, target)
    else:
        shapes = special_problems("direct of floats" if family == "direct" else family, seed, count)
    served = tuple(types for types in TYPES if _is_multiplied(family, types, target))
    for shape in shapes:
        q = float_quantization(decks, served, family in PROMOTING)
        if family == "stem_wgmma":
            q = replace(q, residual="none", residual_zero_point=False, mode=Mode())
        yield replace(shape, quantization=q)


def _is_multiplied(family: str, types: tuple[str, str], target: Target) -> bool:
    if family in ("simt", "depthwise"):
        return True
    if family == "stem_wgmma" and types[0] == "tfloat32":  # two of its pixels exceed a cell
        return False
    of_floats = target.instructions if family in ("mma", "stem", "direct") else target.generation.warpgroup_of_floats
    return any(each.accepts(*types) for each in of_floats)


def float_plan(family: str, problem: Conv2d, target: Target, seed: object) -> Plan:
    return matrix_plan(problem, target, seed) if family == "mma" else special_plan(family, problem, target, seed)


# Between two convolutions of a kernel.
BETWEEN = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32")


def float_chains(seed: int, count: int, target: Target, layers: int = 2) -> list[Chain]:
    """Return chains of floats that the target's matrix instructions, or its threads, multiply, with the shapes of
    chains of bytes."""
    decks = [Decks(random.Random(f"float chain {seed} {at}")) for at in range(layers)]
    return [_float_chain(chain, decks, target) for chain in fused_problems(seed, count, target, layers)]


def _float_chain(chain: Chain, decks: list[Decks], target: Target) -> Chain:
    made: list[Conv2d] = []
    served = [_served(one, target) for one in chain.layers.values()]
    for own, one, types, behind in zip(decks, chain.layers.values(), served, [*served[1:], ()], strict=True):
        if made:
            given = made[-1].quantization.out_type
            types = tuple(pair for pair in types if ELEMENT_TYPES[pair[0]].array_type == given)
        q = float_quantization(own, types)
        if behind:
            taken = {ELEMENT_TYPES[pair[0]].array_type for pair in behind}
            between = tuple(name for name in BETWEEN if name in taken)
            q = replace(q, residual="none", residual_zero_point=False, y_zero_point=False, mode=Mode())
            q = replace(q, out_type=own.deal(f"between {between}", between))
        made.append(replace(one, quantization=q))
    return chain_of(made)


def _served(layer: Conv2d, target: Target) -> tuple[tuple[str, str], ...]:
    """Return the pairs of types that a kernel of several layers multiplies in this one."""
    family = "depthwise" if is_depthwise(layer) else "mma"
    return tuple(types for types in TYPES if _is_multiplied(family, types, target))


def float_plans(family: str, seed: int, count: int, target: Target) -> list[Plan]:
    """Return a plan of each problem that has one: wider elements need more shared memory and whole words."""
    made: list[Plan] = []
    for index, problem in enumerate(float_problems(family, seed, count, target)):
        try:
            made.append(float_plan(family, problem, target, index))
        except (Infeasible, IndexError):
            continue
    assert len(made) >= count * (0.3 if family.startswith("halo") else 0.7), (
        f"{len(made)} of {count} problems have a plan of {family}"
    )
    return made


assert {name for pair in TYPES for name in pair} >= set(FLOAT8)
