"""The cases that the fast suite keeps."""

from __future__ import annotations

import pytest
from mostly_slow import mostly_slow


def test_what_is_not_fast_is_slow() -> None:
    made = mostly_slow(["a", "b", "c"], {"b"})
    assert [(each.id, [mark.name for mark in each.marks]) for each in made] == [
        ("a", ["slow"]),
        ("b", []),
        ("c", ["slow"]),
    ]


def test_a_fast_case_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="d: no case has this name; there are a, b"):
        mostly_slow(["a", "b"], {"a", "d"})
