"""A mapping of what was used last."""

from __future__ import annotations

from qconv.recent import Recent


def test_what_was_used_longest_ago_goes() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.keep("a", 1)
    recent.keep("b", 2)
    assert recent.get("a") == 1
    recent.keep("c", 3)
    assert "b" not in recent
    assert [recent.get(key) for key in "abc"] == [1, None, 3]
    recent.keep("a", 4)  # no third one
    assert len(recent) == 2
    assert recent.get("a") == 4


def test_what_is_taken_is_gone() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.keep("a", 1)
    assert recent.take("a") == 1
    assert recent.take("a") is None
    recent.keep("b", 2)
    recent.clear()
    assert not len(recent)
