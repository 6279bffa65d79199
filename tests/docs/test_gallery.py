"""The gallery of kernels: one of each family, with its drawing, arithmetic and source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from qconv import generator
from qconv.generator import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def gallery() -> Any:
    sys.path.insert(0, str(DOCS))
    try:
        import gallery
    finally:
        sys.path.remove(str(DOCS))
    return gallery


def test_every_family_with_a_source_is_shown(gallery: Any) -> None:
    assert set(FAMILIES) == set(gallery.SHOWN) | set(gallery.WITHOUT_SOURCE)
    assert not set(gallery.SHOWN) & set(gallery.WITHOUT_SOURCE)


@pytest.mark.parametrize("name", ["simt", "halo", "tcgen05", "stem_pool", "reduce", "matmul_mma"])
def test_an_entry_has_the_drawing_the_arithmetic_and_the_source(gallery: Any, name: str) -> None:
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
