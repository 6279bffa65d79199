"""Numbers and ranges of an option."""

from __future__ import annotations

import pytest

from qconv.cli.ranges import MOST, numbers_of


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1", [1]),
        ("8,1", [8, 1]),
        ("1-4", [1, 2, 3, 4]),
        ("224-300:32", [224, 256, 288]),
        ("224-288:32", [224, 256, 288]),
        ("3, 2-4", [3, 2, 4]),
        ("5-5", [5]),
    ],
)
def test_what_is_meant(text: str, numbers: list[int]) -> None:
    assert numbers_of("--batch", text) == numbers


@pytest.mark.parametrize("text", ["", "0", "1,", "a", "-1", "4-1", "1-2-3", "1:2", "1-4:0", "1.5", "\u0661", "1-"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"--batch .* must be numbers of at least 1 or ranges such as"):
        numbers_of("--batch", text)


def test_too_many_are_refused() -> None:
    assert len(numbers_of("--batch", f"1-{MOST}")) == MOST
    with pytest.raises(ValueError, match=rf"has more than {MOST} numbers: give a range with a larger step"):
        numbers_of("--batch", f"1-{MOST + 1}")
