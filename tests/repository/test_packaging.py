"""The contents of a wheel: every folder with templates must be a package that pyproject.toml names, or it would be
missing."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKED = ("generator", "instances", "templates", "tune_db", "tuner")


def test_every_folder_of_templates_travels() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    templates = ROOT / "templates"
    folders = {path.parent.relative_to(templates) for path in templates.rglob("*.j2")}
    named = {".".join(("qconv.templates", *folder.parts)) for folder in folders}
    assert named == {package for package in setup["packages"] if package.startswith("qconv.templates")}
    assert setup["package-data"]["*"] == ["*.j2"]


def test_every_folder_of_modules_travels() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {".".join(path.parent.relative_to(ROOT / "src").parts) for path in (ROOT / "src").rglob("__init__.py")}
    folders |= {
        ".".join(("qconv", *path.parent.relative_to(ROOT).parts))
        for folder in LINKED
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert folders <= set(setup["packages"])


@pytest.mark.parametrize("name", LINKED)
def test_a_folder_beside_src_is_reached_through_src(name: str) -> None:
    """By a link that works wherever the repository is cloned."""
    link = ROOT / "src/qconv" / name
    assert link.readlink() == Path("../..", name)
    assert (link / "__init__.py").samefile(ROOT / name / "__init__.py")
