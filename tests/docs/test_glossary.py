"""The page of the configs explains every field of every family's config, and nothing else."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from qconv.generator import FAMILIES, Config

DOCS = Path(__file__).parents[2] / "docs"
WORDS, CONFIGS = (DOCS / "glossary.md").read_text(), (DOCS / "reference/configs.md").read_text()


def entries() -> dict[str, dict[str, str]]:
    """Return family -> field -> meaning, from the tables under the headings."""
    found: dict[str, dict[str, str]] = {}
    for section in CONFIGS.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        rows = re.findall(r"^\| `([^`]*)` \| (.*) \|$", text, re.MULTILINE)
        assert len(rows) == len(dict(rows)), f"{heading} explains a field twice"
        found[heading.strip("`")] = dict(rows)
    return found


def own_fields(config: type[Config]) -> set[str]:
    """Return the fields that a config adds to those of the config that it extends."""
    (base,) = config.__bases__
    return {field.name for field in fields(config)} - {field.name for field in fields(base)}


def test_every_family_has_a_section_and_every_section_a_family() -> None:
    assert set(entries()) == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_field_has_an_entry_and_every_entry_a_field(name: str) -> None:
    explained = entries()[name]
    assert set(explained) == own_fields(FAMILIES[name].config)
    assert all(meaning.strip() for meaning in explained.values())


def test_a_config_that_extends_another_explains_what_it_adds() -> None:
    assert own_fields(FAMILIES["block"].config) == {"third_m", "third_n"}


def test_the_words_are_sorted_and_each_stands_once() -> None:
    words = re.findall(r"^\| ([^|`]+) \| [^|]+ \|$", WORDS, re.MULTILINE)[1:]
    assert len(words) > 60
    assert words == sorted(words, key=str.lower)
    assert len(words) == len({word.lower() for word in words})
