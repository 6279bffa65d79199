"""The record of the GPU tests: how it is read from pytest and the sanitizer, and that the docs report it correctly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import suite

RECORDS = Path(__file__).parents[2] / "bench" / "results"
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a" name="good"/>
<testcase classname="tests.a" name="bad"><failure message="assert 1 == 2&#10;more"/></testcase>
<testcase classname="tests.a" name="broken"><error message="no such fixture"/></testcase>
<testcase classname="tests.a" name="left"><skipped message="no kernel overlaps"/></testcase>
<testcase classname="tests.b" name="left"><skipped message="no kernel overlaps"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(params=["nvidia-h200", "nvidia-h100"])
def record(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDS / request.param / suite.NAME).read_text())
    return found


def test_outcomes_are_counted_and_skips_have_reasons(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(JUNIT)
    assert suite.counted(tmp_path / "report.xml") == {
        "passed": 1,
        "failed": {"tests.a::bad": "assert 1 == 2", "tests.a::broken": "no such fixture"},
        "skipped": {"no kernel overlaps": 2},
    }


@pytest.mark.parametrize(
    ("output", "clean"),
    [
        ("12 passed in 3.00s\n========= ERROR SUMMARY: 0 errors\n", True),
        ("12 passed in 3.00s\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", True),
        ("12 passed in 3.00s\n========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n", False),
        ("12 passed in 3.00s\n========= ERROR SUMMARY: 10 errors\n", False),
        ("1 failed, 11 passed in 3.00s\n========= ERROR SUMMARY: 0 errors\n", False),
        ("12 skipped in 3.00s\n========= ERROR SUMMARY: 0 errors\n", False),
        ("compute-sanitizer: device not supported\n", False),
    ],
)
def test_a_sanitizer_is_clean_only_where_tests_ran_under_it_and_it_said_so(output: str, clean: bool) -> None:
    assert suite.summary_of(output)[1] is clean


CLEAN = {"summary": "0 errors", "clean": True, "seconds": 1.5}
SLOW = {"summary": "ended at its limit of 240 s", "clean": False, "seconds": 240.0}


def test_a_slow_test_leaves_the_records_of_the_others() -> None:
    said = suite.tool_record({"tests/a.py::fast": CLEAN, "tests/a.py::slow": SLOW})
    assert not said["clean"]
    assert said["summary"] == "1 of 2 tests clean"
    assert said["seconds"] == {"tests/a.py::fast": 1.5}
    assert said["not_clean"] == {"tests/a.py::slow": SLOW}


def test_a_skipped_test_is_neither_clean_nor_a_fault() -> None:
    skipped = {"summary": "skipped: sm_90a has no tensor memory", "clean": True, "seconds": None}
    said = suite.tool_record({"tests/a.py::fast": CLEAN, "tests/a.py::other": skipped})
    assert (said["clean"], said["summary"]) == (True, "1 of 1 tests clean")
    assert said["skipped"] == {"tests/a.py::other": "skipped: sm_90a has no tensor memory"}
    assert not suite.tool_record({"tests/a.py::other": skipped})["clean"]


def test_a_tool_that_ran_no_test_is_not_clean() -> None:
    assert not suite.tool_record({})["clean"]
    assert suite.tool_record({"tests/a.py::fast": CLEAN})["clean"]


def test_a_test_that_outruns_its_limit_under_a_tool_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\nexec sleep 600\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert suite.sanitize("racecheck", "tests/a.py::slow", 0.2) == {
        "summary": "ended at its limit of 0.2 s",
        "clean": False,
        "seconds": 0.2,
    }


def test_each_test_meets_each_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "sanitizer_tests", lambda: ["tests/a.py::one", "tests/b.py::two"])
    monkeypatch.setattr(suite, "sanitize", lambda tool, test, limit_s: CLEAN | {"seconds": limit_s})
    found = suite.sanitize_all(["memcheck", "racecheck"], 2, 3.0)
    assert list(found) == ["memcheck", "racecheck"]
    assert all(one["seconds"] == {"tests/a.py::one": 3.0, "tests/b.py::two": 3.0} for one in found.values())


def test_the_record_is_green(record: dict[str, Any]) -> None:
    assert suite.is_green(record), suite.sentence(record)
    assert set(record["sanitizer"]) == set(suite.TOOLS)


@pytest.mark.parametrize("hurt", ["failed", "none passed", "sanitizer"])
def test_a_record_with_a_fault_is_not_green(record: dict[str, Any], hurt: str) -> None:
    if hurt == "failed":
        record["tests"]["failed"] = {"tests.a::bad": "assert 1 == 2"}
    elif hurt == "none passed":
        record["tests"]["passed"] = 0
    else:
        record["sanitizer"]["racecheck"]["clean"] = False
    assert not suite.is_green(record)


def test_templates_that_changed_are_named(record: dict[str, Any]) -> None:
    record["templates"] = suite.templates()
    assert suite.changed_since(record) == []
    record["templates"] |= {"families/mma/page.j2": "of another day", "families/gone.j2": "0"}
    del record["templates"]["families/simt.j2"]
    assert suite.changed_since(record) == ["families/mma/page.j2", "families/simt.j2"]
    record["templates"]["simt.j2"] = suite.templates()["families/simt.j2"]  # it was moved since
    assert suite.changed_since(record) == ["families/mma/page.j2"]
    assert suite.sentence(record).endswith("changed since: families/mma/page.j2.")
    record["templates"] = {}
    count = len(suite.templates())
    assert suite.sentence(record).endswith(f"changed since: {count} of {count}.")


def test_templates_of_other_vendors_do_not_count() -> None:
    names = suite.templates()
    assert "instruction/wgmma.j2" in names
    assert not {"prelude/hip.j2", "prelude/cpu.j2", "mma/mfma.j2", "mma/wmma_gfx11.j2"} & set(names)


def test_the_page_says_what_was_run_and_what_changed_since(record: dict[str, Any]) -> None:
    """After a change of the templates, run bench/suite.py on the GPU again, or bench/page_tables.py: a reader learns
    what the GPU has not seen yet."""
    said = " ".join(PAGE.read_text().split())
    assert suite.sentence(record) in said
