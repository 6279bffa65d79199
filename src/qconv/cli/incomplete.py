"""The failure of a command: one sentence with a remedy, an exit code, and one document under --json.

This module needs only Python, so that it can report a missing package.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

# The format of errors under --json. Fields may be added to it, but not changed or removed.
SCHEMA = "qconv-error-1"
REQUEST, MACHINE = 2, 3
# Remedies for missing packages that are imported on use.
PACKAGES = {
    "cupy": "pip install 'qconv-tune[cuda]' for NVIDIA, 'qconv-tune[rocm]' for AMD",
    "PIL": "pip install pillow",
    "onnx": "pip install 'qconv-tune[onnx]'",
    "psycopg": "pip install 'psycopg[binary]'",
}


@dataclass(frozen=True)
class Failure:
    kind: str  # the name of the exception
    message: str
    exit_code: int

    def show(self, as_json: bool) -> None:
        """Print the sentence to stderr, and with --json the document to stdout, where its reader expects one."""
        print(f"Error: {readable(self.message)}", file=sys.stderr)
        if as_json:
            document = {"kind": self.kind, "message": self.message, "exit_code": self.exit_code}
            print(json.dumps({"schema": SCHEMA, "error": document}, indent=1))


def failure_of_import(error: ModuleNotFoundError) -> Failure | None:
    """Return the failure for a missing package, a dependency or one of an extra; None for a module of this project."""
    kind, missing = type(error).__name__, (error.name or "").partition(".")[0]
    if missing == "qconv":
        return None
    if missing in core_packages():
        again = f"run {shlex.quote(sys.executable or 'python')} -m pip install qconv-tune again"
        says = f"{error}, which qconv-tune itself depends on: its installation is incomplete, {again}"
        return Failure(kind, says, MACHINE)
    remedy = PACKAGES.get(missing, f"pip install {missing}" if missing else "install what is missing")
    return Failure(kind, f"{error}, which this command needs: {remedy}", MACHINE)


def core_packages() -> set[str]:
    """Return the module names of the packages that qconv-tune requires without extras, from its metadata."""
    try:
        required = metadata.requires("qconv-tune") or []
    except metadata.PackageNotFoundError:  # run from its sources
        return set()
    names = (re.match(r"[\w.-]+", one) for one in required if "extra ==" not in one)
    return {name[0].lower().replace("-", "_") for name in names if name is not None}


def asks_for_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments


def readable(message: str, keeping: str = "\n\t") -> str:
    """Escape unprintable characters: a path, an argument or a file name may contain any."""
    return "".join(letter if letter.isprintable() or letter in keeping else repr(letter)[1:-1] for letter in message)
