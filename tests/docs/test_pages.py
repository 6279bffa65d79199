"""README stays a front page, and no page has a broken link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from document_blocks import DOCUMENTS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / name for name in DOCUMENTS]
MOST_LINES = 100
MOST_NUMBERS = 10
MOST_WORDS = 3000


def anchors(page: Path) -> set[str]:
    """Return the fragments that a git host makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_is_at_most_100_lines() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_readme_has_at_most_ten_measured_numbers() -> None:
    numbers = re.findall(r"\b\d+(?:\.\d+)?(?:x\b| us\b| ms\b| TOPS\b| TB/s| ?%)", README)
    assert 0 < len(numbers) - numbers.count("1x") <= MOST_NUMBERS, numbers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} is not there"
        assert not fragment or fragment in anchors(target), f"{link}: {target.name} has no such heading"


def test_lessons_have_at_most_3000_words() -> None:
    assert len((ROOT / "docs/lessons.md").read_text().split()) <= MOST_WORDS


def test_the_changelog_has_no_history_before_a_release() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (.*)$", changelog, re.MULTILINE) == ["Unreleased"]
    assert len(changelog.splitlines()) <= 60
