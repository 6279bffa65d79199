"""A table is as wide as the terminal, or as it needs to be."""

from __future__ import annotations

import click
import pytest

from qconv.cli.table import check_one_format, fitted, print_csv, table

ROWS = [["1.50 us", "a config that is long", ""], ["12.25 us", "short", ""]]


def test_in_a_pipe_every_letter_is_there() -> None:
    assert table(["time", "config", "reason"], ROWS, None).splitlines() == [
        "    time  config",
        " 1.50 us  a config that is long",
        "12.25 us  short",
    ]


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_in_a_terminal_no_line_is_wider(columns: int) -> None:
    rows = [["1.50 us", "config " * 9, "problem " * 20, "why"]]
    shown = table(["time", "config", "problem", "reason"], rows, columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert "1.50" in shown


def test_the_widest_gives_way() -> None:
    assert fitted([8, 60, 100, 4], 60, [True] * 4) == [8, 21, 21, 4]
    assert fitted([9, 9], 3, [True, False]) == [6, 6]


def test_a_whole_column_gives_way_last() -> None:
    assert fitted([8, 60, 40], 80, [True, True, False]) == [8, 28, 40]
    assert fitted([8, 60, 90], 80, [True, True, False]) == [6, 6, 64]


def test_nothing_to_show_has_its_names() -> None:
    assert table(["time", "config"], [], 80) == "time  config"


def test_csv_has_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(["time_us", "reason"], [[1.5, None], [None, 'a "reason", in\nlines']])
    assert capsys.readouterr().out == 'time_us,reason\n1.5,\n,"a ""reason"", in\nlines"\n'


def test_one_format_at_a_time() -> None:
    check_one_format(as_json=True, as_csv=False)
    with pytest.raises(click.UsageError, match="--json and --csv both say how to print: give one"):
        check_one_format(as_json=True, as_csv=True)
