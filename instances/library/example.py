"""The example of a library: its first problem, with values for whatever that takes."""

from __future__ import annotations

import json
from string import Template

import numpy as np

from qconv.instances.library.entry import Entry
from qconv.instances.library.table import parameters_of
from qconv.instances.library.vectors import SEED, given, spelled
from qconv.sample import draw


class Page(Template):
    """A file with @NAME@ where something is filled in: `$` means something else in CMake."""

    delimiter = "@"
    pattern = r"@(?:(?P<escaped>@)|(?P<named>[A-Z]+)@|(?P<braced>[A-Z]+)@@|(?P<invalid>(?!)))"  # type: ignore[assignment]


def example_text(page: Page, entry: Entry) -> str:
    names = dict.fromkeys(name for layer, _ in entry.layers for name in parameters_of(entry, layer))
    values = {name: value for name, value in given(draw(entry.problem, SEED)).items() if name in names}
    lines, rows = [], []
    for name, array in values.items():
        is_integer = array.dtype == np.int32
        ctype, kind = ("int32_t", "QCONV_INT32") if is_integer else ("double", "QCONV_FLOAT64")
        written = ", ".join(spelled(value) for value in array)
        lines.append(f"    const std::vector<{ctype}> {name} = {{{written}}};")
        rows.append(f'        {{"{name}", {kind}, {name}.size(), {name}.data()}},')
    return page.substitute(KEY=json.dumps(str(entry.problem)), VALUES="\n".join(lines), PARAMETERS="\n".join(rows))
