"""Sections of a template stand in the kernels that want them."""

from __future__ import annotations

import pytest
from jinja2 import TemplateSyntaxError

from qconv.generator.source import _environment

PAGE = """first
//% section "a"
of a

//% section "b", "c"
//%   if twice
of b or c
//%   endif
of b or c
//% section
always
//% section "a"
//%   include "overlap/x.j2"
//% endsections
last
"""


def rendered(*wants: str, twice: bool = False) -> str:
    return _environment().from_string(PAGE).render(wants=set(wants), twice=twice)


def test_a_section_stands_where_one_of_its_features_is_wanted() -> None:
    assert rendered() == "first\nalways\nlast\n"
    assert rendered("b") == rendered("c") == rendered("c", "b") == "first\nof b or c\nalways\nlast\n"
    assert rendered("a").startswith("first\nof a\n\nalways\n")


def test_a_section_holds_other_directives() -> None:
    assert rendered("c", twice=True).count("of b or c\n") == 2
    assert "tile::kept(args.x)" in rendered("a")
    assert "tile::kept" not in rendered("b")


def test_a_features_name_may_be_computed() -> None:
    page = '//% for verb in ("load", "store")\n//%   section verb ~ "_tile"\n${ verb }\n//%   endsections\n//% endfor\n'
    assert _environment().from_string(page).render(wants={"store_tile"}) == "store\n"


def test_sections_have_an_end() -> None:
    with pytest.raises(TemplateSyntaxError, match="endsections"):
        _environment().from_string('//% section "a"\nof a\n')
