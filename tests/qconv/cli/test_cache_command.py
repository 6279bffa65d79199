"""The command group cache, as typed."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filled_cache import KEY, fill

import qconv
from qconv.cli import main
from qconv.cli.cache import size

Answer = tuple[int, str, str]


@pytest.fixture
def cache(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Answer]:
    """Run a command on a cache with one kernel for the CPU."""
    fill(tmp_path / "cache")
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "none.sqlite"))

    def run(*arguments: str) -> Answer:
        code: Any = 0
        try:
            main(["cache", *arguments])
        except SystemExit as done:
            code = done.code
        return int(code or 0), *capsys.readouterr()

    return run


def test_list_counts_entries_per_target(cache: Callable[..., Answer]) -> None:
    code, out, _ = cache("list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["kind", "kernel", "library", "choices", "3"]
    found = json.loads(cache("list", "--json")[1])
    assert [entry["kind"] for entry in found] == ["kernel", "library", "choices"]
    rows = list(csv.DictReader(io.StringIO(cache("list", "--csv")[1])))
    assert [row["path"] for row in rows] == [entry["path"] for entry in found]


def test_kernels_are_chosen_by_target(cache: Callable[..., Answer]) -> None:
    assert [entry["kind"] for entry in json.loads(cache("list", "--target", "cpu", "--json")[1])] == ["kernel"]
    code, _, err = cache("list", "--target", "h100")
    assert code == 2
    assert "no kernel here is for it; there are some for cpu-" in err
    assert "only kernels have a target" in cache("list", "--target", "cpu", "--kind", "library")[2]


def test_clear_deletes_what_is_chosen(cache: Callable[..., Answer]) -> None:
    assert "1 entries, " in cache("clear", "--kind", "kernel", "--dry-run")[1]
    for days in ("1", "1e9", "1e309"):
        assert json.loads(cache("clear", "--older-than", days, "--json")[1])["entries"] == 0
    (kernel, *_) = json.loads(cache("list", "--json")[1])
    os.utime(kernel["path"], (0, 0))
    assert json.loads(cache("clear", "--older-than", "1", "--json")[1]) == {
        "entries": 1,
        "bytes": kernel["bytes"],
        "deleted": True,
    }
    assert [entry["kind"] for entry in json.loads(cache("list", "--json")[1])] == ["library", "choices"]
    cache("clear")
    assert cache("list")[1].splitlines()[-1] == "0 entries, 0 B"
    qconv.forget()
    assert qconv.lookup(KEY, "cpu").problem == qconv.parse(KEY)


def test_the_folders_of_others_stay(
    cache: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QCONV_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "mine"))
    assert json.loads(cache("clear", "--json")[1])["entries"] == 0
    assert len(json.loads(cache("list", "--json")[1])) == 3


def test_verify_names_what_is_damaged(cache: Callable[..., Answer]) -> None:
    assert cache("verify")[:2] == (0, "3 of 3 entries are whole\n")
    (kernel, *_) = json.loads(cache("list", "--json")[1])
    Path(kernel["path"], "kernel.so").write_bytes(b"cut")
    code, out, _ = cache("verify")
    assert code == 1
    assert out.startswith(f"damaged  {kernel['path']}: the binary's digest is not the recorded one; the next lookup")
    assert out.endswith("2 of 3 entries are whole\n")
    (damaged,) = json.loads(cache("verify", "--json")[1])["damaged"]
    (row,) = csv.DictReader(io.StringIO(cache("verify", "--csv")[1]))
    assert (row["path"], row["reason"]) == (damaged["path"], damaged["reason"])
    assert damaged["reason"] == "the binary's digest is not the recorded one"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "0.977 KiB"), (1536, "1.5 KiB"), (2**20, "1 MiB"), (800 * 2**30, "800 GiB")],
)
def test_a_size_has_three_digits(count: int, shown: str) -> None:
    assert size(count) == shown
