"""Tests mirror the packages.

tests/ has the folders of the packages, and a test file is named after a module, a page or a folder of its package, or
is listed here with its subject.
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
# Folder of tests -> the package.
MIRRORED = {
    "qconv": "src/qconv",
    **{name: name for name in ("bench", "generator", "instances", "templates", "tune_db", "tuner")},
}
# Folders without a package of their own: documents, other systems, hostile input and faults, the repository's own
# rules, and shared helpers.
# tests share.
OTHERS = {"conformance", "docs", "hostile", "repository", "support"}
# A test may be named after a module, a page, or a header or source in C++.
NAMING = (".py", ".j2", ".h", ".cpp")

SUBJECTS = {
    "generator/test_amd_code.py": "what clang makes of every family's kernels",
    "generator/test_cheapest.py": "the default, out of the spaces of all families",
    "generator/test_compiles.py": "every family's kernels, for every target",
    "generator/test_cost.py": "the cost models of all families, which have to agree",
    "templates/test_frames.py": "the pages of wgmma and halo that read the frames of volumes",
    "generator/test_golden.py": "every family's reviewed sources",
    "generator/test_nvidia_code.py": "what ptxas makes of every family's kernels",
    "generator/test_same_code.py": "that two sources compile to the same machine code",
    "instances/test_conv1d.py": "a one-liner of its own, out of api and arguments",
    "instances/test_interop_gpu.py": "other libraries' arrays, in every one-liner and instance",
    "instances/test_packed.py": "the packed weights that api, instance and executable pass on",
    "qconv/cli/test_refusals.py": "what all commands refuse",
    "qconv/network/test_overlaps.py": "the launches of a session's layers of all kinds",
    "templates/test_accumulator.py": "the sums of all pages",
    "templates/test_fences.py": "the fences and waits of all pages",
    "templates/test_output_table.py": "the table that all pages look outputs up in",
    "templates/test_planted_texts.py": "the bugs that the tests of all pages plant",
    "templates/test_quotient.py": "tile::quotient, a division in every page",
    "templates/test_special_random.py": "the pages depthwise, direct, stem, gemv and pointwise",
    "templates/test_special_roles.py": "the pages depthwise, stem and gemv",
    "templates/test_special_sanitizers.py": "the pages depthwise, direct, stem, gemv and pointwise",
    "tuner/test_gain.py": "budgets by gain, through allocation, the strategies and tune",
    "tune_db/test_read_only.py": "a database that database and engine may only read",
}


def mirrored_files() -> list[Path]:
    """Return the files below tests/ in mirrored and in unknown folders."""
    found = (path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py")))
    return [path for path in found if path.parts[0] not in OTHERS]


def is_in_a_package(path: Path) -> bool:
    return path.parts[0] in MIRRORED and ROOT.joinpath(MIRRORED[path.parts[0]], *path.parts[1:-1]).is_dir()


def names_of(path: Path) -> set[str]:
    """Return the possible names of a test file: its folder, and the contents of the package's folder, at any depth if
    that is the package itself."""
    folder = ROOT.joinpath(MIRRORED[path.parts[0]], *path.parts[1:-1])
    held = folder.rglob("*") if len(path.parts) == 2 and path.parts[0] == "templates" else folder.iterdir()
    return {path.parent.name} | {each.stem for each in held if each.suffix in NAMING or each.is_dir()}


def is_named_after(stem: str, names: set[str]) -> bool:
    """Return true if the stem is one of the names, with an optional suffix: test_mma_random_gpu is named after mma."""
    said = stem.removeprefix("test_")
    return any(said == name or said.startswith(f"{name}_") for name in names)


def test_every_folder_is_one_of_a_package() -> None:
    lost = [f"tests/{path}" for path in mirrored_files() if not is_in_a_package(path)]
    assert not lost, f"these lie in no folder of a package: {lost}"


def test_every_file_is_named_after_what_it_tests() -> None:
    held = [path for path in mirrored_files() if is_in_a_package(path)]
    nameless = {str(path) for path in held if not is_named_after(path.stem, names_of(path))}
    assert not (new := sorted(nameless - set(SUBJECTS))), (
        f"name these after a module, or say in SUBJECTS why not: {new}"
    )
    assert not (needless := sorted(set(SUBJECTS) - nameless)), f"gone, or named after a module: {needless}"


def test_a_name_is_whole_words() -> None:
    assert is_named_after("test_mma", {"mma"})
    assert is_named_after("test_mma_random_gpu", {"mma"})
    assert not is_named_after("test_mmap", {"mma"})
