"""Families, ops and search strategies of other packages: found once they are installed, and named where they cannot be
used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from called import here

from qconv import generator, interface, parse, plugins
from qconv.errors import PluginError
from qconv.instances.load import choice_cache
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.search import strategies

OUTSIDE = Path(__file__).parents[1] / "outside"
KEY = "distance:count=1000"
LAYER = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:x_type=int8:w_type=int8:out_type=int8"
CPU = TARGETS["cpu"]
Install = Callable[..., None]


def forget() -> None:
    plugins._entries.cache_clear()
    plugins.load.cache_clear()
    generator.cheapest.cache_clear()
    generator.default.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a module, and the entry points that name it, as a package of this name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(name: str, points: dict[str, str], module: str | None = None) -> None:
        if module is not None:
            (tmp_path / f"{name}.py").write_text(module)
        about = tmp_path / f"{name}-0.1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
        (about / "entry_points.txt").write_text("".join(f"[{group}]\n{one}\n" for group, one in points.items()))
        forget()

    yield made
    monkeypatch.undo()
    for module in [name for name in sys.modules if name.startswith(("qconv_outside", "broken"))]:
        del sys.modules[module]
    forget()


@pytest.fixture
def outside(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(OUTSIDE))
    points = {
        "qconv.families": "distance = qconv_outside.distance:FAMILY",
        "qconv.ops": "distance = qconv_outside.distance:OP",
        "qconv.strategies": "backwards = qconv_outside.backwards:STRATEGY",
    }
    install("qconv_outside", points)


@pytest.mark.usefixtures("outside")
def test_what_is_installed_is_found() -> None:
    problem = parse(KEY)
    assert (problem.op, registry.op_of(problem).name, str(problem)) == ("distance", "distance", KEY)
    feasible, rejected = generator.space(problem, CPU)
    assert ([plan.config.family for plan in feasible], rejected) == (["distance"] * 3, [])
    assert "gap(args.a[at], args.b[at])" in generator.render(feasible[0]).text
    assert generator.config_from_json(feasible[0].config.as_json()) == feasible[0].config
    assert list(generator.every_family())[-1] == "distance"
    assert "qconv_outside" in {path.name for path in plugins.roots()}
    assert strategies.every_name() == (*strategies.names(), "backwards")
    space = strategies.Space(problem, feasible)
    search = strategies.named("backwards")(space)
    assert search.ask() == feasible[-1]
    with pytest.raises(ValueError, match=r"known: .*matmul, distance$"):
        parse("divide:count=1")


@pytest.mark.usefixtures("outside")
def test_its_kernels_are_exact() -> None:
    from qconv.device import open_device
    from qconv.instances.load.pair import load
    from qconv.tuner.measure.verification import mismatch

    problem = parse(KEY)
    for plan in generator.space(problem, CPU)[0]:
        assert mismatch(load(plan, open_device("cpu")), registry.draw(problem, seed=1)) is None


def test_without_a_package_nothing_is_there() -> None:
    assert plugins.names(plugins.FAMILIES) == ()
    with pytest.raises(ValueError, match=r"names the op 'distance'; known: conv2d, .*matmul$"):
        parse(KEY)
    refused = here("tune", LAYER, "--device", "cpu", "--strategy", "cheapst")
    assert refused.returncode == 2
    assert (
        "--strategy 'cheapst' is not one of bayesian, cheapest, optuna:SAMPLER (did you mean cheapest?): give one"
        in refused.stderr
    )


FAMILY = "INTERFACE = 1\nfrom qconv.generator.families.simt import FAMILY\n"
BAD: dict[str, tuple[str, str, str]] = {
    "an import that fails": (
        "plain = broken:FAMILY",
        "raise RuntimeError('no luck')",
        r"the family 'plain' of the package broken 0\.1 cannot be loaded from broken:FAMILY \(RuntimeError: no luck\): "
        "mend or uninstall it",
    ),
    "no such name": ("plain = broken:FAMILY", "INTERFACE = 1", r"\(AttributeError: .*FAMILY.*\): mend or uninstall"),
    "no version": ("plain = broken:FAMILY", "FAMILY = 1", "does not say for which version it was written, and this is"),
    "another version": (
        "plain = broken:FAMILY",
        "INTERFACE = 2\nFAMILY = 1",
        "was written for 2, and this is version 1 of the interface: set INTERFACE = 1 in broken once it is right",
    ),
    "another kind": ("plain = broken:FAMILY", "INTERFACE = 1\nFAMILY = 1", "is a int: its entry point must name a Fam"),
    "another name": ("plain = broken:FAMILY", FAMILY, "is the family 'simt': its entry point must name a Family that"),
    "a name of ours": ("simt = broken:FAMILY", FAMILY, "has the name of one of qconv's own: give it another"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_named_with_its_package(case: str, install: Install) -> None:
    point, module, says = BAD[case]
    install("broken", {"qconv.families": point}, module)
    with pytest.raises(PluginError, match=says) as raised:
        generator.families(parse(LAYER))
    assert "the package broken 0.1" in str(raised.value)
    answer = here("space", LAYER, "--target", "cpu")
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr.startswith("Error: the family '")


def test_a_name_of_two_packages_is_refused(install: Install) -> None:
    install("broken_one", {"qconv.strategies": "same = broken_one:S"}, "INTERFACE = 1\nS = dict")
    install("broken_two", {"qconv.strategies": "same = broken_two:S"}, "INTERFACE = 1\nS = list")
    with pytest.raises(PluginError, match=r"the search strategy 'same' is in the package broken_\w+ 0\.1 and in the"):
        strategies.named("same")


@pytest.mark.usefixtures("outside")
def test_choices_are_forgotten_where_a_package_changes() -> None:
    program = choice_cache._program.__wrapped__
    with_it = program()
    sys.path.remove(str(OUTSIDE))
    forget()
    assert program() not in (None, with_it)


def test_the_interface_is_what_is_listed() -> None:
    public = {name for name, value in vars(interface).items() if not name.startswith("_") and name != "annotations"}
    assert public == set(interface.__all__)
    assert interface.VERSION == plugins.VERSION == 1


@pytest.mark.slow
def test_a_package_is_built_installed_tuned_looked_up_and_exported(tmp_path: Path) -> None:
    """In a virtual environment that sees the packages of this one. It is what CI's log shows of a user's package."""
    sources, place = tmp_path / "outside", tmp_path / "venv"
    for path in OUTSIDE.rglob("*"):
        if path.suffix in (".py", ".j2", ".toml"):
            to = sources / path.relative_to(OUTSIDE)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    venv.create(place)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "project.pth").write_text("\n".join(path for path in sys.path if path and Path(path).is_dir()))
    python = place / "bin/python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"QCONV_CACHE": str(tmp_path / "cache"), "QCONV_DB": str(tmp_path / "tune.sqlite")}

    def run(*words: object) -> str:
        command = [str(python), "-m", *map(str, words)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        print("$", *words, done.stdout, done.stderr, sep="\n")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def document(*words: object) -> Any:
        return json.loads(run("qconv", *words, "--json"))

    run("pip", "install", "--no-index", "--no-deps", "--no-build-isolation", sources)
    (installed,) = packages.glob("qconv_outside/pages/distance.j2")
    assert installed.is_file()
    tuned = document("tune", KEY, "--device", "cpu", "--trials", 3, "--strategy", "backwards", "-q")
    assert (tuned["measured"], tuned["winner"]["config"]["family"]) == (3, "distance")
    found = document("lookup", KEY, "--device", "cpu")
    assert (found["origin"], found["config"]) == ("exact", tuned["winner"]["config"])
    assert document("run", KEY, "--device", "cpu", "--verify")["verified"] is True
    files = document("export", KEY, "--target", "cpu", "--out", tmp_path / "out")["files"]
    (kernel,) = (name for name in files if name.startswith("distance_"))
    assert "gap(args.a[at], args.b[at])" in (tmp_path / "out" / kernel).read_text()
    assert len(document("space", KEY, "--target", "gfx90a")["feasible"]) == 3
