"""The import ladder of the design: a module imports only from its own rung and from rungs below it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import qconv

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "qconv": ROOT / "src/qconv",
    **{f"qconv.{name}": ROOT / name for name in ("generator", "instances", "templates", "tune_db", "tuner")},
}

# From the bottom up. Modules of one rung may import each other, but not in a circle.
LADDER: tuple[tuple[str, ...], ...] = (
    (
        "qconv.version",
        "qconv.errors",
        "qconv.blas",
        "qconv.dtypes",
        "qconv.host_array",
        "qconv.narrow_floats",
        "qconv.integer_input",
        "qconv.op",
        "qconv.plugins",
        "qconv.recent",
        "qconv.arithmetic",
        "qconv.targets",
        "qconv.sampling",
        "qconv.tensor_ops",
        "qconv.expression",
        "qconv.problem",
        "qconv.conversion",
        "qconv.ops",
    ),
    ("qconv.templates",),
    ("qconv.generator",),
    ("qconv.device",),
    ("qconv.tune_db",),
    ("qconv.instances",),
    ("qconv.tuner",),
    ("qconv.network",),
    # The front ends: they may use everything, and nothing below uses them.
    (
        "qconv.__main__",
        "qconv.benchmark",
        "qconv.cli",
        "qconv.interface",
        "qconv.onnx",
        "qconv.shipping",
        "qconv.torch",
        "qconv.tuning",
    ),
)
# The root package only names things; it imports them when they are used.
FACE = "qconv"

# Heavy packages, and the only place that may import each.
HOMES = {
    "cupy": "qconv.device",
    "cupy_backends": "qconv.device",
    "dask": "qconv.tuner.workloads.fleet",
    "distributed": "qconv.tuner.workloads.fleet",
    "optuna": "qconv.tuner",
    "sqlalchemy": "qconv.tune_db",
    "jinja2": "qconv.generator",
    "click": "qconv.cli",
    "onnx": "qconv.onnx",
    "onnxruntime": "qconv.onnx",
    "ml_dtypes": "qconv.dtypes",
    # Elsewhere, callers supply its arrays, and the package uses their protocols.
    "torch": "qconv.torch",
    "torchao": "qconv.torch",
}
# The report is a page too, in another language than the kernels'.
ALSO = {("qconv.tuner.report", "jinja2")}


def module_of(path: Path) -> str:
    package, folder = max(
        ((package, folder) for package, folder in FOLDERS.items() if path.is_relative_to(folder)),
        key=lambda pair: len(pair[0]),
    )
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join([package, *(part for part in parts if part != "__init__")])


@dataclass(frozen=True)
class Import:
    line: int
    module: str


@lru_cache(maxsize=1)
def modules() -> dict[str, Path]:
    return {module_of(path): path for folder in FOLDERS.values() for path in folder.rglob("*.py")}


@lru_cache(maxsize=1)
def imports() -> dict[str, tuple[Import, ...]]:
    """Return the imports of every module, at any place in it."""
    return {module: read_imports(path.read_text(), module) for module, path in modules().items()}


def read_imports(text: str, module: str) -> tuple[Import, ...]:
    """`from qconv import blas` imports qconv.blas."""
    found: list[Import] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports must be absolute"
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                found.append(Import(node.lineno, whole if whole in modules() else str(node.module)))
    return tuple(found)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def rung_of(module: str) -> int | None:
    return next((number for number, names in enumerate(LADDER) if any(is_in(module, name) for name in names)), None)


def upward(module: str, found: tuple[Import, ...]) -> list[str]:
    """Return one sentence for each wrong import of this package."""
    own, wrong = rung_of(module), []
    for one in found:
        place, rung = f"{module}:{one.line} imports {one.module}", rung_of(one.module)
        if one.module == FACE:
            # `from qconv import x`, with x not a module, would load a higher rung.
            wrong.append(f"{place}, the root package; import the module itself")
        elif is_in(one.module, FACE) and rung is not None and own is not None and rung > own:
            wrong.append(f"{place}, which stands higher")
    return wrong


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of an import circle, the first one again at the end; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_is_read() -> None:
    assert {
        "qconv",
        "qconv.generator.families.simt",
        "qconv.device.gpu",
        "qconv.tuner.search.tune",
        "qconv.cli",
    } <= set(modules())
    assert Path(str(qconv.__file__)) == modules()["qconv"] or "site-packages" in str(qconv.__file__)


def test_every_named_module_exists() -> None:
    named = {*(name for names in LADDER for name in names), *HOMES.values()}
    assert not (gone := sorted(named - set(modules()))), (
        f"tests/repository/test_ladder.py names modules that do not exist: {gone}"
    )


def test_every_module_stands_on_one_rung() -> None:
    for module in set(modules()) - {FACE}:
        # A package on one rung must not have a module on another.
        rungs = {number for number, names in enumerate(LADDER) if any(is_in(module, name) for name in names)}
        assert len(rungs) == 1, f"{module} stands on {len(rungs)} rungs: give it one in tests/repository/test_ladder.py"


def reached_from(module: str) -> set[str]:
    """Return all modules that are loaded with a module, through top-level imports."""
    reached, left = set[str](), [module]
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += [one.module for one in at_the_top(name) if one.module in modules()]
    return reached


@lru_cache(maxsize=512)
def at_the_top(module: str) -> tuple[Import, ...]:
    """Return the imports outside of functions, without those for type checkers only."""
    text = modules()[module].read_text()
    lines, found = (
        text.splitlines(),
        [one for one in ast.parse(text).body if isinstance(one, ast.Import | ast.ImportFrom)],
    )
    return read_imports("\n".join(line for one in found for line in lines[one.lineno - 1 : one.end_lineno]), module)


def test_choosing_needs_nothing_of_loading_nor_loading_of_choosing() -> None:
    """So that the tuner can use either without the other."""
    policy, loading = "qconv.instances.choose.lookup", "qconv.instances.load.pair"
    instance = "qconv.instances.load.instance"
    for module, strangers in ((policy, {loading, instance, "qconv.device"}), (loading, {policy, instance})):
        assert not reached_from(module) & strangers, module
    taken = {
        (module, one.module)
        for module, found in imports().items()
        if is_in(module, "qconv.tuner")
        for one in found
        if one.module in (policy, instance, "qconv.instances.load.serving")
    }
    # A race of networks is about winners in use.
    winners = {("qconv.tuner.sequence", instance)}
    assert taken == {("qconv.tuner.search.tune", policy)} | winners


def test_modules_import_from_below_only() -> None:
    wrong = [said for module, found in imports().items() if module != FACE for said in upward(module, found)]
    assert not wrong, "\n".join(wrong)


def test_an_import_of_a_higher_rung_is_seen() -> None:
    text = "def f():\n    from qconv.tuner.search.tune import tune\n    from qconv import blas, lookup\n"
    assert upward("qconv.instances.choose.lookup", read_imports(text, "qconv.instances.choose.lookup")) == [
        "qconv.instances.choose.lookup:2 imports qconv.tuner.search.tune, which stands higher",
        "qconv.instances.choose.lookup:3 imports qconv, the root package; import the module itself",
    ]


def test_no_modules_import_each_other_in_a_circle() -> None:
    """On any rung, and within one package too."""
    own = set(modules())
    found = circle({module: {one.module for one in every} & own for module, every in imports().items()})
    assert not found, f"these import each other in a circle: {' -> '.join(found)}"


def test_a_circle_is_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == {"b", "c"}


def test_heavy_packages_are_imported_at_home_only() -> None:
    for module, found in imports().items():
        for one in found:
            package = one.module.split(".")[0]
            place = f"{modules()[module]}:{one.line} imports {one.module}"
            home = HOMES.get(package)
            allowed = home is None or is_in(module, home) or (module, package) in ALSO
            assert allowed, f"{place}, which only {home} may"


def test_the_root_package_imports_nothing_when_it_is_loaded() -> None:
    tree = ast.parse(modules()[FACE].read_text())
    loaded = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {name.name if isinstance(node, ast.Import) else node.module for node in loaded for name in node.names}
    assert names <= {"__future__", "importlib", "typing", "qconv.version"}


def test_the_root_package_names_everything_that_it_offers() -> None:
    for name in qconv.__all__:
        assert getattr(qconv, name) is not None
    with pytest.raises(AttributeError, match="module 'qconv' has no attribute 'conv4d'"):
        _ = qconv.conv4d
