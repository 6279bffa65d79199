"""The database as Optuna studies: one for each problem and device, a trial per measured config. optuna-dashboard and
Optuna's plots read them."""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from qconv.errors import first_line
from qconv.generator import families
from qconv.tuner.report.label import label_of

if TYPE_CHECKING:
    from qconv.op import Problem
    from qconv.tune_db.measurement import Measurement

# The attribute that names a trial's row, so that a second run adds only new ones.
ROW = "row"
# The name of the trials' values.
VALUE = "median us"
# Letters, which a server's column has.
LONGEST_NAME = 512


@dataclass(frozen=True)
class Written:
    """A study after it was written: its name, its trials, and how many of them are new."""

    name: str
    trials: int
    added: int


def write(rows: Sequence[Measurement], storage: str) -> list[Written]:
    """Add the rows to the studies of a storage: a SQLAlchemy URL, or the path of a SQLite file. Raise ValueError where
    it cannot be opened."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        opened = optuna.storages.RDBStorage(storage if "://" in storage else f"sqlite:///{storage}")
    except Exception as error:  # of SQLAlchemy, which only the database imports, or of the driver
        raise ValueError(
            f"--storage: the storage cannot be opened ({first_line(error)}): give a SQLAlchemy URL, such as "
            "sqlite:///study.db, or the path of a file"
        ) from None
    groups: dict[tuple[Problem, str], list[Measurement]] = defaultdict(list)
    for row in rows:
        groups[row.problem, row.device].append(row)
    return [
        _write(_short(f"{label_of(problem)} on {device}"), group, opened) for (problem, device), group in groups.items()
    ]


def _short(name: str) -> str:
    """Return a name that a storage takes, which differs where names differ."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 17]} {hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _write(name: str, rows: Sequence[Measurement], storage: optuna.storages.BaseStorage) -> Written:
    study = optuna.create_study(storage=storage, study_name=name, direction="minimize", load_if_exists=True)
    study.set_user_attr("problem", str(rows[0].problem))
    study.set_user_attr("device", rows[0].device)
    with warnings.catch_warnings(category=optuna.exceptions.ExperimentalWarning, action="ignore"):
        study.set_metric_names([VALUE])
    known = {trial.user_attrs.get(ROW) for trial in study.get_trials(deepcopy=False)}
    distributions = _distributions(rows)
    new = [row for row in rows if _named(row) not in known]  # a race stores the first rows again, so times mislead
    for row in new:
        study.add_trial(trial_of(row, distributions))
    return Written(name, len(known) + len(new), len(new))


def trial_of(row: Measurement, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    """Return a row as a trial: the config's family and fields as parameters, everything else as attributes."""
    params = _params(row)
    trial = create_trial(
        state=TrialState.COMPLETE if row.correct else TrialState.FAIL,
        value=row.median_us,
        params=params,
        distributions={name: distributions[name] for name in params},
        user_attrs={ROW: _named(row)} | {name: value for name, value in _facts(row).items() if value is not None},
    )
    # Optuna's times are local and have no zone.
    trial.datetime_start = trial.datetime_complete = row.created_at.astimezone().replace(tzinfo=None)
    return trial


def _params(row: Measurement) -> dict[str, Any]:
    return {name: value for name, value in row.config.as_dict().items() if isinstance(value, int | str)}


def _distributions(rows: Sequence[Measurement]) -> dict[str, BaseDistribution]:
    """Return the values of each parameter. A field of several families has all of their values."""
    found: dict[str, set[int]] = defaultdict(set)
    known = families(rows[0].problem)
    for row in rows:
        for name, value in _params(row).items():
            if isinstance(value, int):
                found[name].add(value)
    for family in known.values():
        for name, values in family.choices.items():
            found[name].update(values)
    own: dict[str, BaseDistribution] = {
        name: IntDistribution(min(values), max(values)) for name, values in found.items()
    }
    return own | {"family": CategoricalDistribution(tuple(known))}


def _facts(row: Measurement) -> dict[str, Any]:
    return {
        "config": row.config.as_json(),
        "target": row.target,
        "toolchain": row.toolchain,
        "outcome": row.outcome,
        "reason": row.reason,
        "registers": row.registers,
        "spill_bytes": row.spill_bytes,
        "smem_bytes": row.smem_bytes,
        "times_us": list(row.times_us) or None,
    }


def _named(row: Measurement) -> str:
    named = f"{row.config.as_json()} {row.toolchain} {row.created_at.isoformat()}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]
