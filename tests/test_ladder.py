"""The import ladder of the design: a module imports only from its own rung and from rungs below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import qconv

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "qconv": ROOT / "src/qconv",
    **{f"qconv.{name}": ROOT / name for name in ("generator", "instances", "templates", "tune_db", "tuner")},
}

# From the bottom up. Modules of one rung may import each other, as long as there is no circle.
LADDER: tuple[tuple[str, ...], ...] = (
    (
        "qconv.errors",
        "qconv.dtypes",
        "qconv.mode",
        "qconv.quantization",
        "qconv.problem",
        "qconv.fused",
        "qconv.keys",
        "qconv.step",
        "qconv.activation",
        "qconv.epilogue",
        "qconv.instruction",
        "qconv.instruction_tables",
        "qconv.target",
        "qconv.reference",
        "qconv.calibration",
        "qconv.draft",
        "qconv.operands",
        "qconv.sample",
        "qconv.variety",
        "qconv.window",
        "qconv.op",
        "qconv.conversion",
        "qconv.conversion.choice",
        "qconv.conversion.presets",
        "qconv.conversion.reference",
        "qconv.conversion.rules",
        "qconv.conversion.sample",
        "qconv.conversion.steps",
        "qconv.conversion.view",
    ),
    ("qconv.templates",),
    ("qconv.generator",),
    ("qconv.device",),
    ("qconv.tune_db",),
    ("qconv.instances",),
    ("qconv.tuner",),
    # The faces: they may use everything, and nothing below uses them.
    ("qconv.cli", "qconv.onnx", "qconv.torch"),
)
# The root package only names where things are; it imports them when they are used.
FACE = "qconv"
FIRST_RUNG = 0

# Heavy packages, and the only place that may import each.
HOMES = {
    "cupy": "qconv.device",
    "cupy_backends": "qconv.device",
    "optuna": "qconv.tuner",
    "sqlalchemy": "qconv.tune_db",
    "jinja2": "qconv.generator",
    "click": "qconv.cli",
    "onnx": "qconv.onnx",
    "torch": "qconv.torch",
    "ml_dtypes": "qconv.dtypes",
}


def module_of(path: Path) -> str:
    package, folder = max(
        ((package, folder) for package, folder in FOLDERS.items() if path.is_relative_to(folder)),
        key=lambda pair: len(pair[0]),
    )
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join([package, *(part for part in parts if part != "__init__")])


@lru_cache(maxsize=1)
def modules() -> dict[str, Path]:
    return {module_of(path): path for folder in FOLDERS.values() for path in folder.rglob("*.py")}


def statements(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import, wherever it stands: `from qconv import sample` imports qconv.sample."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield node.lineno, whole if whole in modules() else str(node.module)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def rung_of(module: str) -> int:
    for number, names in enumerate(LADDER):
        if any(is_in(module, name) for name in names):
            return number
    pytest.fail(f"{module} stands on no rung: give it one in tests/test_ladder.py")


def test_every_module_is_read() -> None:
    assert {"qconv", "qconv.generator.simt", "qconv.device.gpu", "qconv.tuner.tune", "qconv.cli"} <= set(modules())
    assert Path(str(qconv.__file__)) == modules()["qconv"] or "site-packages" in str(qconv.__file__)


@pytest.mark.parametrize("module", sorted(set(modules()) - {FACE}))
def test_it_imports_from_below_only(module: str) -> None:
    own = rung_of(module)
    for line, imported in statements(modules()[module]):
        if imported == FACE:
            # `from qconv import x`, where x is no module: it would load what stands higher.
            pytest.fail(f"{modules()[module]}:{line} imports from the root package; import the module itself")
        if is_in(imported, "qconv"):
            assert rung_of(imported) <= own, f"{modules()[module]}:{line} imports {imported}, which stands higher"


def test_no_circle_within_the_first_rung() -> None:
    graph = {
        name: {imported for _, imported in statements(modules()[name]) if imported in LADDER[FIRST_RUNG]}
        for name in LADDER[FIRST_RUNG]
    }
    while graph:
        free = [name for name, needs in graph.items() if not needs & set(graph)]
        assert free, f"these import each other in a circle: {sorted(graph)}"
        for name in free:
            del graph[name]


@pytest.mark.parametrize("module", sorted(modules()))
def test_heavy_packages_are_imported_at_home_only(module: str) -> None:
    for line, imported in statements(modules()[module]):
        home = HOMES.get(imported.split(".")[0])
        assert home is None or is_in(module, home), (
            f"{modules()[module]}:{line} imports {imported}, which only {home} may"
        )


def test_the_root_package_imports_nothing_when_it_is_loaded() -> None:
    tree = ast.parse(modules()[FACE].read_text())
    loaded = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {name.name if isinstance(node, ast.Import) else node.module for node in loaded for name in node.names}
    assert names <= {"__future__", "importlib", "typing"}


def test_the_root_package_names_everything_that_it_offers() -> None:
    for name in qconv.__all__:
        assert getattr(qconv, name) is not None
    with pytest.raises(AttributeError, match="module 'qconv' has no attribute 'conv4d'"):
        _ = qconv.conv4d
