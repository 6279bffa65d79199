"""The database as Optuna studies: every row is a trial, once, and Optuna reads it as its own."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import optuna
import pytest
from called import document_here, here
from measurement_samples import CONFIGS, PROBLEM, make_measurement

from qconv import parse
from qconv.generator import default, families
from qconv.targets.target import TARGETS
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement
from qconv.tuner.report import study
from qconv.tuner.report.label import label_of

TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def rows(count: int = 6) -> list[Measurement]:
    """Return rows of which the last has the first time, as rows of a race have, and the third failed."""
    made = []
    for number in range(count):
        outcome = {"outcome": "compile"} if number == 2 else {"median_us": 20.0 - number}
        made.append(make_measurement(number, created_at=TIME - timedelta(minutes=number), **outcome))
    return made


def loaded(path: Path, number: int = 0) -> optuna.Study:
    url = f"sqlite:///{path}"
    return optuna.load_study(storage=url, study_name=sorted(optuna.get_all_study_names(url))[number])


@pytest.mark.slow
def test_every_row_is_a_trial(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    (made,) = study.write(rows(), str(path))
    assert (made.trials, made.added, made.name) == (6, 6, f"{label_of(PROBLEM)} on NVIDIA H200")
    found = loaded(path)
    assert found.user_attrs == {"problem": str(PROBLEM), "device": "NVIDIA H200"}
    trials = found.get_trials()
    for trial, row in zip(trials, rows(), strict=True):
        assert trial.params == row.config.as_dict()
        assert trial.value == row.median_us
        assert trial.state.name == ("COMPLETE" if row.correct else "FAIL")
        assert trial.datetime_start is not None
        assert trial.datetime_start.astimezone(UTC) == row.created_at
        assert trial.user_attrs["config"] == row.config.as_json()
        assert trial.user_attrs.get("reason") == row.reason
    assert found.best_params == CONFIGS[5].as_dict()
    family = trials[0].distributions["family"]
    assert isinstance(family, optuna.distributions.CategoricalDistribution)
    assert set(family.choices) == set(families(PROBLEM))
    assert optuna.importance.get_param_importances(found)


def test_a_second_run_adds_what_was_measured_since(tmp_path: Path) -> None:
    path = str(tmp_path / "study.db")
    assert study.write(rows(3), path)[0].added == 3
    assert loaded(Path(path)).metric_names == ["median us"]
    assert [trial.value for trial in loaded(Path(path)).get_trials()] == [20.0, 19.0, None]
    (again,) = study.write(rows(5), f"sqlite:///{path}")
    assert (again.trials, again.added) == (5, 2)
    newer = make_measurement(0, median_us=1.0, created_at=TIME + timedelta(days=1))
    (third,) = study.write([newer, *rows(5)[1:]], path)
    assert (third.trials, third.added) == (6, 1)
    assert loaded(Path(path)).best_value == 1.0


def test_each_problem_and_device_has_its_own(tmp_path: Path) -> None:
    path, other = tmp_path / "study.db", parse("quantize:outer=1:channels=4:inner=4:out_type=int8")
    config = default(other, TARGETS["sm_90a"]).config
    more = [make_measurement(0, device="NVIDIA L4"), make_measurement(0, problem=other, config=config)]
    assert [one.added for one in study.write([*rows(2), *more], str(path))] == [2, 1, 1]
    assert loaded(path, 2).best_params == config.as_dict()


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    names = [study._short("k" * 600 + end) for end in ("a", "b")]
    assert [len(name) for name in names] == [study.LONGEST_NAME] * 2
    assert names[0] != names[1]
    assert study._short("short") == "short"


def test_a_storage_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for storage in ("nowhere://x", str(tmp_path / "none" / "study.db")):
        with pytest.raises(ValueError, match=r"--storage: the storage cannot be opened \(.*\): give a SQLAlchemy URL"):
            study.write(rows(1), storage)


def test_the_command(tmp_path: Path) -> None:
    db, path = tmp_path / "tune.sqlite", tmp_path / "study.db"
    with Database.open(db) as stored:
        for row in rows():
            stored.add(row)
    command = ("study", "--db", db, "--storage", path)
    made = document_here(*command)
    assert made == {"storage": str(path), "studies": [{"name": loaded(path).study_name, "trials": 6, "added": 6}]}
    (row,) = csv.DictReader(io.StringIO(here(*command, "--csv").stdout))
    assert row == {"name": loaded(path).study_name, "trials": "6", "added": "0"}
    assert here(*command).stdout.splitlines()[1].split()[-2:] == ["6", "0"]
    for given, says in (
        (["--problem", "n=77"], "no row has all of this in its key"),
        (["--device", "none"], "the device name 'none' matches nothing in the database; it has rows of NVIDIA H200"),
    ):
        refused = here(*command, *given)
        assert refused.returncode == 2
        assert says in refused.stderr
