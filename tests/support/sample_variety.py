"""Statistics of random samples' outputs, by kind of problem: `python tests/support/sample_variety.py [KIND ...] --count
N`.

Every tensor counts, including those between the convolutions of a chain.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_conversions import conversions
from random_fused import fused_problems
from random_matrix import EMULATIONS, matrix_problems
from random_pooled import pooled_problems
from random_problems import Decks, problems, with_requantized_sum
from random_special import SHAPES, special_problems

from qconv.arithmetic.mode import MODE_VALUES, Mode
from qconv.conversion import Conversion
from qconv.op import Problem
from qconv.ops import convolution, registry
from qconv.problem.chain import Chain
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d
from qconv.sampling.operands import LEAST_VALUES, MOST_OF_ONE_VALUE, SOME_OUTPUTS, Variety
from qconv.targets.target import TARGETS

TARGET = TARGETS[EMULATIONS[-1]]
KINDS = ("problems", "modes", "requantized", "pooled", "matrix", *SHAPES, "two", "three", "conversions")
COLUMNS = (
    "tensors",
    "constant",
    "constant, not forced",
    "fewer than 8",
    f"fewer than {LEAST_VALUES}, not forced",
    "over 70 % one value",
    f"over {MOST_OF_ONE_VALUE:.0%} one value, not forced".replace("%", " %"),
    "dead channels, not forced",
    "forced",
)


def problems_of(kind: str, seed: int, count: int) -> list[Any]:
    if kind == "modes":
        return list(_in_modes(seed, count))
    if kind == "requantized":
        decks = Decks(random.Random(f"requantized {seed}"))
        made = problems(seed, count)
        return [replace(one, quantization=with_requantized_sum(one.quantization, decks)) for one in made]
    if kind == "pooled":
        return pooled_problems(seed, count)
    if kind in SHAPES:
        return special_problems(kind, seed, count)
    if kind in ("two", "three"):
        return fused_problems(seed, count, TARGET, 2 if kind == "two" else 3)
    if kind == "matrix":
        return matrix_problems(seed, count, TARGET)
    return conversions(seed, count) if kind == "conversions" else problems(seed, count)


def _in_modes(seed: int, count: int) -> Iterator[Conv2d]:
    """Yield problems with a random value for every flag that is compatible with the others."""
    rng = random.Random(f"modes {seed}")
    for problem in problems(seed, count):
        for name in rng.sample(list(MODE_VALUES), len(MODE_VALUES)):
            value = rng.choice(MODE_VALUES[name])
            flags = {name: value} | ({"bias_scaling": "real"} if name == "order" and value != "multiply" else {})
            try:
                mode: Mode = replace(problem.quantization.mode, **flags)
                problem = replace(problem, quantization=replace(problem.quantization, mode=mode))
            except ValueError:
                continue
        yield problem


def tensors(problem: Problem, drawn: registry.Sample) -> Iterator[NDArray[Any]]:
    """Yield outputs and intermediate tensors, by [pixel, channel]; of a conversion, the converted array."""
    if isinstance(problem, Conversion):
        converted = registry.compute(problem, drawn)[0]
        if problem.op != "choose":  # its outputs are one per channel
            yield np.ascontiguousarray(converted.transpose(0, 2, 1)).reshape(-1, problem.channels)
        return
    layers = problem.layers if isinstance(problem, Chain) else {"": problem}
    checked = problem.checked(drawn.parameters)
    x, *others = drawn.arrays
    for layer, one in layers.items():
        assert isinstance(one, Conv2d)
        w, *others = others
        is_last = layer == list(layers)[-1]
        x = convolution.conv2d(one, x, w, getattr(checked, layer) if layer else checked, *(others if is_last else ()))
        last = x if one.layout == "nhwc" else x.transpose(0, 2, 3, 1)
        yield np.ascontiguousarray(last).reshape(-1, one.k)
    if isinstance(problem, PooledConv2d):
        yield registry.compute(problem, drawn)[0].reshape(-1, problem.k)


def count(kind: str, seed: int, problems: int) -> tuple[Counter[str], list[str]]:
    """Return the row of a table, and the faults of each sample."""
    row: Counter[str] = Counter()
    wrong: list[str] = []
    for index, problem in enumerate(problems_of(kind, seed, problems)):
        drawn = registry.draw(problem, index)
        row["forced"] += bool(drawn.forced)
        for rows in tensors(problem, drawn):
            seen = Variety.of(rows)
            some = seen.outputs >= SOME_OUTPUTS
            for column, is_so in zip(
                COLUMNS,
                (
                    True,
                    some and seen.values == 1,
                    not drawn.forced and some and seen.values == 1,
                    some and seen.values < 8,
                    not drawn.forced and seen.has_few_values,
                    some and seen.most > 0.7,
                    not drawn.forced and some and seen.most > MOST_OF_ONE_VALUE,
                    not drawn.forced and seen.dead_channels > 0,
                ),
                strict=False,
            ):
                row[column] += is_so
            if seen.lacks() and not drawn.forced:
                wrong.append(f"sample {index} of {problem}: {seen.lacks()}")
    return row, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help=", ".join(KINDS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| kind | problems |", " | ".join(COLUMNS), "|")
    print("|" + "---|" * (len(COLUMNS) + 2))
    for kind in given.kinds or KINDS:
        row, wrong = count(kind, given.seed, given.count)
        print(f"| {kind} | {given.count} |", " | ".join(str(row[column]) for column in COLUMNS), "|", flush=True)
        for line in wrong:
            print(line)


if __name__ == "__main__":
    main()
