"""The gallery of kernels: one of each family, with its drawing, arithmetic and source."""

from __future__ import annotations

from pathlib import Path

import gallery
import pytest

from qconv import generator
from qconv.generator import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"


def test_every_family_with_a_source_is_shown() -> None:
    assert set(FAMILIES) == set(gallery.SHOWN) | set(gallery.WITHOUT_SOURCE)
    assert not set(gallery.SHOWN) & set(gallery.WITHOUT_SOURCE)


@pytest.mark.parametrize("name", ["simt", "halo", "tcgen05", "stem_pool", "reduce", "matmul_mma"])
def test_an_entry_has_the_drawing_the_arithmetic_and_the_source(name: str) -> None:
    plan = gallery.plan_of(name)
    assert plan.config.family == name
    source = generator.render(plan).text
    entry, page = gallery.entry(name, source), gallery.page(name, source)
    assert (DOCS / f"drawings/{name}.svg").is_file()
    assert f"(drawings/{name}.svg)" in entry
    assert f"config    {name} " in entry
    assert " = " in entry.split("target ")[0]
    assert "//" not in gallery.head(source)
    assert source.rstrip() in page
