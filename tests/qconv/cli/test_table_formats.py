"""Wherever a command prints a table, it prints JSON and csv of it as well; what prints no table says so here."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from called import document_here, here

from qconv.cli.command_line import commands

KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8"
# The output of each command without an option --csv.
NO_TABLE = {
    "bench": "one document",
    "build": "counts",
    "cache clear": "counts",
    "db export": "a file",
    "db prune": "a count",
    "export": "files",
    "help": "help",
    "lookup": "one document",
    "quantize": "counts",
    "report": "a file",
    "run": "one document",
    "source": "a kernel",
}
NO_DOCUMENT = {"db export", "help", "report", "source"}


def every(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def options(command: click.Command) -> set[str]:
    return {option for param in command.params for option in param.opts}


def test_every_table_is_json_and_csv_too() -> None:
    found = dict(every(commands))
    assert {name for name, command in found.items() if "--csv" not in options(command)} == NO_TABLE.keys()
    assert {name for name, command in found.items() if "--json" not in options(command)} == NO_DOCUMENT


@pytest.mark.parametrize("name", [name for name, command in every(commands) if "--csv" in options(command)])
def test_both_at_once_are_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    file.write_bytes(b"")
    words = {
        "space": [KEY],
        "tune": [KEY],
        "explain": [file],
        "compare": [file, file, "--data", tmp_path],
        "sensitivity": [file, file, "--data", tmp_path],
        "study": ["--storage", tmp_path / "study.db"],
        "db merge": [tmp_path / "b.sqlite"],
    }.get(name, [])
    answer = here(*name.split(), *words, "--json", "--csv")
    assert answer.returncode == 2, answer.stderr
    assert "--json and --csv both say how to print: give one" in answer.stderr + answer.stdout


def rows_of(*arguments: object, code: int = 0) -> list[dict[str, str]]:
    answer = here(*arguments, "--csv")
    assert answer.returncode == code, answer.stderr
    return list(csv.DictReader(io.StringIO(answer.stdout)))


def test_space() -> None:
    rows = rows_of("space", KEY, "--target", "gfx90a")
    wanted = document_here("space", KEY, "--target", "gfx90a")
    for state in ("feasible", "rejected"):
        found = [row for row in rows if row["state"] == state]
        assert len(found) == len(wanted[state])
        configs = [one["config"] if state == "rejected" else one for one in wanted[state]]
        assert [json.loads(row["config"]) for row in found] == configs
    assert all("<<<" in row["launch"] for row in rows if row["state"] == "feasible")
    assert [row["reason"] for row in rows if row["state"] == "rejected"] == [r["reason"] for r in wanted["rejected"]]


def test_devices() -> None:
    rows, wanted = rows_of("devices"), document_here("devices")
    assert [row["name"] for row in rows if row["kind"] == "device"] == [one["device"] for one in wanted["devices"]]
    assert {row["name"]: row["facts"] for row in rows if row["kind"] == "target"} == wanted["targets"]
    assert not any("device=" in row["facts"] for row in rows)
    assert f"target={wanted['devices'][-1]['target']}" in rows[len(wanted["devices"]) - 1]["facts"]


def test_doctor() -> None:
    rows, wanted = rows_of("doctor", "--device", "cpu"), document_here("doctor", "--device", "cpu")["findings"]
    assert rows == [{name: one[name] or "" for name in ("what", "state", "says", "remedy")} for one in wanted]


def test_merge(tmp_path: Path) -> None:
    mine, ours = tmp_path / "mine.sqlite", tmp_path / "ours.sqlite"
    document_here("tune", KEY, "--device", "cpu", "--trials", 2, "--db", mine)
    (row,) = rows_of("db", "merge", "--db", ours, mine)
    assert (row["from"], row["added"]) == (str(mine), "2")
    assert document_here("db", "prune", "--db", ours, "--failed", "--dry-run") == {"rows": 0, "deleted": False}
