"""The C++ line of every run-time value matches its NumPy line bit for bit, and refuses the same parameters."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from asked_values import asked, compiled, wanted
from random_problems import Decks, quantization, with_constant, with_requantized_sum

from qconv import Conv2d, Mode, Quantization, generator
from qconv.arithmetic.epilogue import steps
from qconv.arithmetic.host_value import host_value
from qconv.arithmetic.mode import MODE_VALUES
from qconv.arithmetic.step import Argument
from qconv.dtypes import FLOAT8
from qconv.generator.families.simt import Simt
from qconv.instances.library.entry import Entry
from qconv.instances.library.export import served
from qconv.instances.library.table import parameters_of
from qconv.instances.library.vectors import given
from qconv.instances.load.winners import Winner
from qconv.op import Array
from qconv.ops import registry
from qconv.targets.target import target

CHANNELS = 3
COUNT = 160


def quantizations(count: int) -> list[Quantization]:
    """Return random quantizations in modes whose flags are dealt too; contradictory draws are dealt again."""
    rng = random.Random(28)
    decks, found = Decks(rng), list[Quantization]()
    while len(found) < count:
        flags = {flag.name: decks.deal(flag.name, MODE_VALUES[flag.name]) for flag in fields(Mode)}
        try:
            found.append(replace(quantization(decks), mode=Mode(**flags)))
        except ValueError:
            continue
    # A relu6 whose top may exceed the type's largest value, whatever else is dealt.
    capped = [Quantization(out_type=out_type, activation="relu6") for out_type in ("int8", "uint8")]
    looked_up = [
        Quantization(out_type=out_type, y_zero_point=zero, table=True, mode=Mode(zero_point_add=added))
        for out_type in ("int8", "uint8")
        for zero in (False, True)
        for added in MODE_VALUES["zero_point_add"]
    ]
    # The order of two terms changes only the last bit, and not in every draw.
    of_two_terms = [
        Quantization(
            out_type=out_type,
            residual=out_type,
            residual_zero_point=True,
            inner_zero_point=True,
            mode=Mode(residual_add=added),
        )
        for out_type in ("int8", "uint8")
        for added in ("requantized", "requantized_last")
        for _ in range(4)
    ]
    dequantized = [
        Quantization(*[out_type] * 3, residual=out_type, activation=activation, mode=Mode(residual_add="dequantized"))
        for out_type in FLOAT8
        for activation in ("relu6", "silu")
    ]
    constants = [with_constant(Quantization(per_channel=at % 2 == 0), decks) for at in range(20)]
    return [
        *capped,
        *constants,
        *looked_up,
        *of_two_terms,
        *dequantized,
        *(with_requantized_sum(one, decks) if at % 8 == 0 else one for at, one in enumerate(found)),
    ]


def entry_of(problem: Conv2d) -> Entry:
    config = next(iter(generator.FAMILIES["simt"].configs(problem, target("sm_80"), likely=True)))
    assert isinstance(config, Simt)
    return Entry(served(Winner(problem, config, "sm_80", "default")))


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    return [entry_of(Conv2d(1, 3, 3, 4, CHANNELS, 1, 1, quantization=one)) for one in quantizations(COUNT)]


@pytest.fixture(scope="module")
def library(entries: list[Entry], tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(entries, tmp_path_factory.mktemp("values"))


def drawn_anew(values: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Draw scales of any magnitude, most of which are not float32 numbers, and some denormals."""
    changed = dict(values)
    for name, array in values.items():
        if name.endswith("scale"):
            changed[name] = array * 10.0 ** rng.uniform(-25, 25, array.shape)
        elif name == "table" and rng.random() < 0.3:
            # one is outside the type's range
            changed[name] = array[:255] if rng.random() < 0.5 else array + np.int32(1)
        elif name == "constant" and rng.random() < 0.3:
            changed[name] = array[:-1] if rng.random() < 0.5 else array + np.int32(256)
        elif name in ("slope", "low", "high") and rng.random() < 0.3:
            changed[name] = np.float64(rng.choice([1e-39, -1e-39, -0.0])).reshape(1)
    return changed


def scalars(values: Mapping[str, Array]) -> dict[str, Any]:
    """Return the values in Python's form: single numbers are scalars."""
    return {name: array[0] if array.size == 1 and name != "bias" else array for name, array in values.items()}


def test_every_value_is_the_same_bit_for_bit(library: ctypes.CDLL, entries: list[Entry]) -> None:
    rng = np.random.default_rng(28)
    seen, refused = set[str](), 0
    for number, entry in enumerate(entries):
        plan = entry.kernels[0].plan
        names = parameters_of(entry, "")
        values = {name: one for name, one in given(registry.draw(entry.problem, number)).items() if name in names}
        for each in (values, drawn_anew(values, rng), drawn_anew(values, rng)):
            for i, field in enumerate(plan.fields):
                if field.role != "value":
                    continue
                right = wanted(plan, i, scalars(each))
                assert asked(library, number, i, each, field.elements) == right, (str(entry.problem), field.path, each)
                seen.add(field.path)
                refused += right is None
    arguments = {made.name for one in quantizations(COUNT) for step in steps(one) for made in step.arguments}
    assert seen - {"x_zero", "int32_bias"} == arguments, "some value was never compared"
    assert refused > 50


def test_a_value_without_a_line_is_named() -> None:
    unknown = Argument("gain", "float", False, "", lambda q, p: 0)
    with pytest.raises(ValueError, match=r"the value 'gain' of a step has no C\+\+ line: add it to"):
        host_value(Quantization(), unknown)
