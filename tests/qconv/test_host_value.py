"""The C++ line of every run-time value computes what its NumPy line does, bit for bit, and the same parameters are
refused."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_library import parameters
from random_problems import Decks, quantization, with_requantized_sum

from qconv import Conv2d, Mode, Quantization, generator, sample
from qconv.epilogue import steps
from qconv.generator import Plan
from qconv.generator.simt import Simt
from qconv.host_value import host_value
from qconv.instances.export import served
from qconv.instances.library.bytes_text import array_text
from qconv.instances.library.entry import Entry
from qconv.instances.library.table import binary_name, parameters_of, table_text
from qconv.instances.library.vectors import given
from qconv.instances.winners import Winner
from qconv.mode import MODE_VALUES
from qconv.op import Array
from qconv.step import Argument
from qconv.target import target

CHANNELS = 3
COUNT = 160
# What a program that has the table asks of it: the bits of a field's values, or that the parameters are refused.
ASK = r"""
#include "qconv_parameters.h"
using namespace qconv;
extern "C" int ask(int entry, int field, const qconv_parameter* given, size_t count, uint32_t* bits) {
    try {
        const Parameters p = parameters_of(table[entry].layers[0], Given(given, count));
        const Field& asked = table[entry].kernels[0].fields[field];
        for (size_t k = 0; k < asked.count; ++k) bits[k] = asked.value(p, k);
        return 0;
    } catch (const Failure& failure) {
        return failure.status;
    }
}
"""


def quantizations(count: int) -> list[Quantization]:
    """Random ones, in modes whose flags are dealt as well; what contradicts itself is dealt again."""
    rng = random.Random(28)
    decks, found = Decks(rng), list[Quantization]()
    while len(found) < count:
        flags = {flag.name: decks.deal(flag.name, MODE_VALUES[flag.name]) for flag in fields(Mode)}
        try:
            found.append(replace(quantization(decks), mode=Mode(**flags)))
        except ValueError:
            continue
    # A relu6 whose top may lie beyond the type's largest value, whatever else is dealt.
    capped = [Quantization(out_type=out_type, activation="relu6") for out_type in ("int8", "uint8")]
    looked_up = [
        Quantization(out_type=out_type, y_zero_point=zero, table=True, mode=Mode(zero_point_add=added))
        for out_type in ("int8", "uint8")
        for zero in (False, True)
        for added in MODE_VALUES["zero_point_add"]
    ]
    return [
        *capped,
        *looked_up,
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
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("values")
    names = dict.fromkeys(binary_name(kernel) for entry in entries for kernel in entry.kernels)
    binaries = "\n".join(array_text(name, b"-") for name in names)
    text = f"{table_text(entries)}\n{ASK}\nnamespace qconv {{\n{binaries}}}\n"
    (folder / "values.cpp").write_text(text)
    include = Path(str(resources.files("qconv.instances.library")))
    flags = ["-std=c++17", "-O0", "-ffp-contract=off", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["g++", *flags, "values.cpp", "-o", "values.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "values.so"))


def asked(library: ctypes.CDLL, entry: int, field: int, values: Mapping[str, Array], count: int) -> bytes | None:
    """None: the parameters are refused."""
    bits, rows = np.zeros(count, np.uint32), parameters(values)
    status = library.ask(entry, field, rows, ctypes.c_size_t(len(rows)), ctypes.c_void_p(bits.ctypes.data))
    return None if status else bits.tobytes()


def wanted(plan: Plan, field: int, values: Mapping[str, Any]) -> bytes | None:
    assert isinstance(plan.problem, Conv2d)
    try:
        with np.errstate(all="ignore"):
            return plan.fields[field].value(plan.problem, plan.problem.checked(dict(values)))
    except ValueError:
        return None


def drawn_anew(values: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Scales of any magnitude, most of which are no float32; numbers among which there are denormals."""
    changed = dict(values)
    for name, array in values.items():
        if name.endswith("scale"):
            changed[name] = array * 10.0 ** rng.uniform(-25, 25, array.shape)
        elif name == "table" and rng.random() < 0.3:
            changed[name] = array[:255] if rng.random() < 0.5 else array + np.int32(1)  # one is beyond the type
        elif name in ("slope", "low", "high") and rng.random() < 0.3:
            changed[name] = np.float64(rng.choice([1e-39, -1e-39, -0.0])).reshape(1)
    return changed


def scalars(values: Mapping[str, Array]) -> dict[str, Any]:
    """As Python takes them: one number is a scalar."""
    return {name: array[0] if array.size == 1 and name != "bias" else array for name, array in values.items()}


def test_every_value_is_the_same_bit_for_bit(library: ctypes.CDLL, entries: list[Entry]) -> None:
    rng = np.random.default_rng(28)
    seen, refused = set[str](), 0
    for number, entry in enumerate(entries):
        plan = entry.kernels[0].plan
        names = parameters_of(entry, "")
        values = {name: one for name, one in given(sample.draw(entry.problem, number)).items() if name in names}
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
