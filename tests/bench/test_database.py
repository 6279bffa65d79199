"""The benchmark of the database: its rows are always the same, and a run goes from filling to merging."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


def test_the_rows_are_always_the_same_and_of_all_kinds() -> None:
    from made_rows import MadeRows, batches, problems

    some = problems(4)
    assert len(set(some)) == 4
    assert problems(4) == some
    (rows,) = batches(MadeRows(some, per_problem=20), 80)
    assert next(batches(MadeRows(some, per_problem=20), 80)) == rows
    assert len({row.key for row in rows}) == 80
    assert {row.outcome for row in rows} == {"correct", "timeout"}
    phases = [row.protocol["phase"] for row in rows if row.protocol]
    assert {phase: phases.count(phase) for phase in set(phases)} == {"raced": 4, "alone": 24, "screened": 48}
    (later,) = batches(MadeRows(some, per_problem=20, first=10, later=True), 40)
    assert len({row.key for row in later} & {row.key for row in rows}) == 20
    assert min(row.created_at for row in later) > max(row.created_at for row in rows)


def test_there_are_not_any_number_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    import made_rows

    monkeypatch.setattr(made_rows, "BATCHES", (1,))
    monkeypatch.setattr(made_rows, "ACTIVATIONS", ("none",))
    with pytest.raises(ValueError, match=r"1000 problems: there are \d+ different ones; ask for fewer"):
        made_rows.problems(1000)


@pytest.mark.slow
def test_a_run_measures_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import database

    out = tmp_path / "figures.json"
    monkeypatch.setattr(database, "LOOKUPS", 1)
    monkeypatch.setattr(sys, "argv", ["database.py", "--rows", "60", "--problems", "2", "--merge-rows", "40"])
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--out", str(out), "--url", str(tmp_path / "tune.sqlite")])
    database.main()
    figures = json.loads(out.read_text())
    assert figures["exact_origins"] == ["exact"]
    assert set(figures["unknown_origins"]) <= {"default", "nearest"}
    assert figures["merge_counts"] == [15, 25, 0]
    assert all(value > 0 for name, value in figures.items() if name.endswith(("_ms", "_s", "bytes_a_row")))
