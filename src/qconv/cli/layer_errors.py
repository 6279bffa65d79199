"""Errors of layers, as the commands compare and sensitivity print them: data, and the layers to keep in floats."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from qconv.cli.options import print_json
from qconv.cli.table import print_documents_csv

# Layers that a last line names.
WORST = 3


def printed_as_data(document: Mapping[str, Any], names: Sequence[str], as_json: bool, as_csv: bool) -> bool:
    """Print the document as JSON, or its layers as csv with columns of these names. Return False if neither is asked
    for."""
    if as_json:
        print_json(document)
    elif as_csv:
        print_documents_csv(names, document["layers"])
    return as_json or as_csv


def leaving_out(names: Iterable[str]) -> str:
    """Return the command that keeps the first of these layers in floats."""
    named = (f"--leave-out {shlex.quote(name)}" for name in list(dict.fromkeys(names))[:WORST])
    return f"qconv-tune quantize with {' '.join(named)}"
