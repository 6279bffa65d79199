"""A planted bug: what a line of the product says instead, why that is wrong, and which tests must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# They compare text, not behaviour: to fail there, a change needs only to be one.
COMPARE_TEXT = (
    "tests/generator/test_golden.py",
    "tests/repository/test_house.py::test_counts_are_at_their_limits",
    "tests/repository/test_mutants.py",
    "tests/bench/test_page_tables.py::test_the_pages_have_todays_tables",
    "tests/bench/test_speedups.py::test_the_picture_names_every_comparison_and_its_geometric_mean",
    "tests/bench/test_speedups.py::test_every_point_of_the_picture_is_a_row_of_the_json",
    "tests/bench/test_speedups.py::test_the_script_draws_the_picture_byte_for_byte",
    "tests/bench/test_suite.py::test_the_page_says_what_was_run_and_what_changed_since",
)


@dataclass(frozen=True)
class Mutant:
    name: str
    symbol: (
        str  # that holds it: a function, Class.method, Struct::function, or a file by its name or the end of its path
    )
    old: str  # stands there exactly once
    new: str
    why: str  # one sentence: what goes wrong
    tests: tuple[str, ...]  # few and quick, at least one of which fails: node ids, a file by the end of its path
    slow: bool = False  # whether only tests marked `slow` notice
    gpu: bool = False  # whether only tests marked `gpu` notice, for nothing else executes the line
    needs: str = ""  # a package without which its tests are skipped
    crashes: bool = False  # whether it ends the process of its tests by a signal, as a wild address does
    equivalent: str = ""  # why no test can notice; such a mutant is listed so that nobody plants it again
