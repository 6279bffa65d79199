"""The exported winners: their origins, targets and problems."""

from __future__ import annotations

from pathlib import Path

import pytest

from qconv import Conv2d, generator
from qconv.instances.load.winners import Wanted, Winner, find
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement

MINE = Conv2d(1, 7, 7, 16, 24, 3, 3, pad=1)
OTHER = Conv2d(1, 5, 5, 4, 4, 1, 1)
UNKNOWN = Conv2d(1, 3, 3, 8, 8, 1, 1)


def row(problem: Conv2d, name: str, device: str, median_us: float = 1.0) -> Measurement:
    plan = generator.default(problem, target(name))
    return Measurement(
        problem=problem,
        config=plan.config,
        device=device,
        target=name,
        toolchain="any",
        digest=generator.render(plan).digest,
        outcome="correct",
        times_us=(median_us,),
        median_us=median_us,
    )


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "tune.sqlite")
    with Database.open(path) as rows:
        for one in (row(MINE, "cpu", "a cpu"), row(MINE, "sm_80", "an A100"), row(OTHER, "sm_80", "an A100", 2.0)):
            rows.add(one)
    return path


def told(winners: list[Winner]) -> set[tuple[str, str, str]]:
    return {(str(winner.problem), winner.target, winner.origin) for winner in winners}


def test_all_of_the_database_by_default(database: str) -> None:
    everything = {(str(MINE), "cpu", "user"), (str(MINE), "sm_80", "user"), (str(OTHER), "sm_80", "user")}
    assert told(find(Wanted(), database)) == everything


def test_filters_by_target_by_device_and_by_a_part_of_the_key(database: str) -> None:
    assert told(find(Wanted(targets=("cpu",)), database)) == {(str(MINE), "cpu", "user")}
    assert {winner.device for winner in find(Wanted(device="a100"), database)} == {"an A100"}
    assert told(find(Wanted(words=("k=4",)), database)) == {(str(OTHER), "sm_80", "user")}
    assert len(find(Wanted(words=(str(MINE),)), database)) == 2


def test_shipped_winners_are_found_with_their_device() -> None:
    found = find(Wanted(("shipped",), ("sm_90a",)))
    assert len(found) > 10
    assert {(winner.target, winner.origin, winner.device) for winner in found} == {("sm_90a", "shipped", "NVIDIA H200")}


def test_the_first_origin_that_knows_a_problem_gives_it(tmp_path: Path) -> None:
    first = next(one for one in find(Wanted(("shipped",), ("sm_90a",))) if isinstance(one.problem, Conv2d))
    assert isinstance(first.problem, Conv2d)
    with Database.open(tmp_path / "tune.sqlite") as rows:
        rows.add(row(first.problem, "sm_90a", first.device, 1e6))
    for origins in (("user", "shipped"), ("shipped", "user")):
        (found,) = find(Wanted(origins, ("sm_90a",), (str(first.problem),)), str(tmp_path / "tune.sqlite"))  # type: ignore[arg-type]
        assert found.origin == origins[0]


def test_a_default_serves_where_nothing_else_does(database: str) -> None:
    keys = (str(MINE), str(UNKNOWN))
    found = find(Wanted(("user", "default"), ("sm_80", "gfx90a"), keys), database)
    assert told(found) == {
        (str(MINE), "sm_80", "user"),
        (str(MINE), "gfx90a", "default"),
        (str(UNKNOWN), "sm_80", "default"),
        (str(UNKNOWN), "gfx90a", "default"),
    }
    untuned = next(winner for winner in found if winner.problem == UNKNOWN and winner.target == "sm_80")
    assert untuned.config == generator.default(UNKNOWN, target("sm_80")).config
    assert (untuned.median_us, untuned.device, str(untuned)) == (None, "", "the untuned default for sm_80")


def test_defaults_of_what_is_known_where_no_key_is_named(database: str) -> None:
    found = find(Wanted(("default",), ("cpu",), ("h=7:w=7:c=16:k=24",)), database)
    assert told(found) == {(str(MINE), "cpu", "default")}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"words": (str(UNKNOWN),)}, "has no winner of origin user: tune it, or add default to --origin"),
        ({"words": ("k=4",), "targets": ("cpu",)}, "give another filter, or add default to --origin"),
        ({"words": ("k=24", "k=4444")}, "no winner of origin user has 'k=4444' in its key: correct it"),
        ({"device": "H100"}, "it has rows of a cpu, an A100: give one of those"),
    ],
)
def test_what_matches_nothing_is_told_with_what_is_there(database: str, wanted: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        find(Wanted(**wanted), database)  # type: ignore[arg-type]


def test_what_is_typed_is_checked() -> None:
    with pytest.raises(ValueError, match=r"origin='shiped' is not one of user, shipped, default \(did you mean"):
        Wanted(("shiped",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="origin default needs a target"):
        Wanted(("default",))
    with pytest.raises(ValueError, match="target 'sm_81' is not one of"):
        Wanted(targets=("sm_81",))


def test_targets_may_be_named_by_gpus() -> None:
    assert Wanted(targets=("H100", "sm_90a", "strix-halo")).targets == ("sm_90a", "gfx1151")


def test_without_a_database_there_is_nothing_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "none.sqlite"))
    with pytest.raises(ValueError, match=r"run qconv-tune tune first, or widen --origin \(shipped, default\)"):
        find(Wanted())
