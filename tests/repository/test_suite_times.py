"""The table of the tests' times counts each test once, under one kind and one file."""

from __future__ import annotations

from pathlib import Path

import pytest
import suite_times

REPORT = """<testsuites><testsuite>
<testcase classname="tests.generator.test_plan" name="test_a[x]" time="3.0"/>
<testcase classname="tests.templates.test_mma_sanitizers" name="test_b" time="5.0"/>
<testcase classname="tests.templates.test_mma_random" name="test_c" time="1.0"/>
<testcase classname="tests.templates.test_mma_random" name="test_under_a_sanitizer" time="1.0"><skipped/></testcase>
</testsuite></testsuites>"""


def test_each_test_is_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "fast.xml"
    report.write_text(REPORT)
    suite_times.main([str(report), str(report)])
    said = capsys.readouterr().out
    assert "| of 20 s in 8 tests | s | share |" in said
    assert "| sanitizers: builds and runs | 12.0 | 60% |" in said
    assert "| planning, spaces and sources | 6.0 | 30% |" in said
    assert "| tests.templates.test_mma_random | 4.0 | 20% |" in said


def test_a_report_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no such report: .*none\.xml; write one with pytest --junitxml=FILE"):
        suite_times.main([str(tmp_path / "none.xml")])


def test_every_folder_of_tests_has_a_kind() -> None:
    tests = Path(__file__).parents[1]
    files = [path.relative_to(tests.parent).with_suffix("") for path in tests.rglob("test_*.py")]
    unknown = {str(file) for file in files if suite_times.Timed(".".join(file.parts), "", 1.0).kind == suite_times.REST}
    assert {Path(file).parts[1] for file in unknown} <= {"docs", "support"}, unknown
