"""The values that a library's table computes from parameters, computed in C++ and in Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_library import parameters

from qconv.generator import Plan
from qconv.instances.library.entry import Entry
from qconv.instances.library.table import binary_name, table_text
from qconv.instances.library.vectors import array_text
from qconv.op import Array

# A program that queries the table: it returns the bits of a field's values, or that the parameters are refused.
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


def compiled(entries: Sequence[Entry], folder: Path) -> ctypes.CDLL:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    names = dict.fromkeys(binary_name(kernel) for entry in entries for kernel in entry.kernels)
    binaries = "\n".join(array_text(name, b"-") for name in names)
    text = f"{table_text(entries)}\n{ASK}\nnamespace qconv {{\n{binaries}}}\n"
    (folder / "values.cpp").write_text(text)
    include = Path(str(resources.files("qconv.instances.library")))
    flags = ["-std=c++17", "-O0", "-ffp-contract=off", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["g++", *flags, "values.cpp", "-o", "values.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "values.so"))


def asked(library: ctypes.CDLL, entry: int, field: int, values: Mapping[str, Array], count: int) -> bytes | None:
    """Return the bytes of a field's values, or None if the parameters are refused."""
    bits, rows = np.zeros(count, np.uint32), parameters(values)
    status = library.ask(entry, field, rows, ctypes.c_size_t(len(rows)), ctypes.c_void_p(bits.ctypes.data))
    return None if status else bits.tobytes()


def wanted(plan: Plan, field: int, values: Mapping[str, Any]) -> bytes | None:
    try:
        with np.errstate(all="ignore"):
            checked = plan.problem.checked(dict(values))
            return plan.fields[field].value(plan.problem, checked)
    except ValueError:
        return None
