"""What a wheel holds: every folder with templates is a package that pyproject.toml names, or it would stay behind."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_folder_of_templates_travels() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    templates = ROOT / "templates"
    folders = {path.parent.relative_to(templates) for path in templates.rglob("*.j2")}
    named = {".".join(("qconv.templates", *folder.parts)) for folder in folders}
    assert named == {package for package in setup["packages"] if package.startswith("qconv.templates")}
    assert setup["package-data"]["*"] == ["*.j2"]


def test_every_folder_of_modules_travels() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        ".".join((package, *path.parent.relative_to(ROOT / folder).parts))
        for package, folder in setup["package-dir"].items()
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert folders <= set(setup["packages"])
