"""The check of the built site finds broken links."""

from __future__ import annotations

from pathlib import Path

from site_links import broken


def test_a_page_and_a_place_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#here">b</a><a href="https://example.org/gone">it</a><a href="#top"></a>'
        '<img src="gone.svg"><a href="b.html#gone">b</a><a href="b.html">b</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p>')
    assert broken(tmp_path) == ["a.html: gone.svg is not there", "a.html: b.html#gone names no place there"]
