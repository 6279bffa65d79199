"""The Python face of the tuner: `qconv.tune(problems or a file, ...)`; the command reads its workloads here too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from qconv.op import Problem, quoted
from qconv.tuner.workload import NetworkProblems, Place, Workload
from qconv.tuner.workloads.allocation import Budget

if TYPE_CHECKING:
    from qconv.tune_db.database import Database
    from qconv.tuner.search.tune import Search
    from qconv.tuner.sequence import Race, Raceable
    from qconv.tuner.workloads.result import Result
    from qconv.tuner.workloads.schedule import Engine, Step

DEFAULT_TRIALS = 24


def tune(
    problems: Problem | str | PathLike[str] | Iterable[Problem | str],
    budget: int | Budget = DEFAULT_TRIALS,
    *,
    batch: int | None = None,
    device: str | None = None,
    database: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    timeout_s: float = 60.0,
    strategy: str | None = None,
    watch: Callable[[Step], None] = lambda step: None,
) -> Results:
    """Tune problems, or their keys, or those of a file: an ONNX model, a csv, a list of keys. A problem that stands
    there twice counts twice. `budget` is trials a problem on average, or a `qconv.Budget` with seconds, or with a
    target: no trial begins that is expected to shorten the best time by fewer per cent.

    Trials go where the network's time is. The database is that of the command; what it has of an earlier run is not
    measured again, and the next `qconv.lookup` finds the winners. With `workers`, so many processes here measure, each
    on a GPU of its own; with `scheduler`, the workers of Dask at that address.

    Of a network, which `session.problems` and a model are, the last step races the whole: new winners with which it is
    slower are not installed, and `race` of what is returned says both times. That takes some seconds more.
    """
    from qconv.instances.load.serving import default_database, forget
    from qconv.tune_db.database import Database
    from qconv.tuner.search import strategy as strategies
    from qconv.tuner.search.tune import Search
    from qconv.tuner.workloads.result import results

    workload = workload_of(problems, batch)
    limits = budget if isinstance(budget, Budget) else Budget(budget)
    chosen = strategies.DEFAULT if strategy is None else strategy
    how = Search(0, timeout_s, strategy=chosen, target=limits.target)
    where = database or default_database()
    with Database.open(where) as rows, engine_of(device, rows, where, how, workers, scheduler) as engine:
        race = tune_and_race(workload, network_of(problems, batch, device), engine, rows, limits, watch)
        found = Results(results(workload, engine.station, rows))
    found.race = race
    forget()
    return found


class Results(list["Result"]):
    """One for each problem. `race` is that of the network, or the reason why there was none; None of mere problems."""

    race: Race | str | None = None


def tune_and_race(
    workload: Workload,
    network: Raceable | str | None,
    engine: Engine,
    rows: Database,
    budget: Budget,
    watch: Callable[[Step], None],
) -> Race | str | None:
    """The race of the network, where there is one, or the reason why there is none."""
    from qconv.tuner.sequence import NetworkRace
    from qconv.tuner.workloads.schedule import tune_workload

    race: NetworkRace | str | None = None
    if isinstance(network, str) or network is None:
        race = network
    elif (network.device.name, network.device.target.name) != (engine.station.name, engine.station.target_name):
        race = f"it was tuned on {engine.station.name}, and is on {network.device.name} here"
    else:
        try:
            race = NetworkRace(network, rows)
        except ValueError as error:
            race = str(error)
    tune_workload(workload, engine, rows, budget, watch)
    return race.end() if isinstance(race, NetworkRace) else race


def network_of(
    problems: Problem | str | PathLike[str] | Iterable[Problem | str], batch: int | None, device: str | None
) -> Raceable | str | None:
    """Return the network to race as a whole: the one whose problems these are, or a session of a model. A text says why
    there is none; None stands for problems without a network."""
    if isinstance(problems, NetworkProblems):
        return problems.network if batch is None else f"the session has a batch of its own: leave batch={batch} out"
    if not isinstance(problems, (str, PathLike)) or Path(problems).suffix.lower() != ".onnx":
        return None
    from qconv.onnx.session import session_of

    try:
        return session_of(Path(problems), batch, device)
    except ValueError as error:
        return str(error)


def engine_of(
    device: str | None, rows: Database, where: str, how: Search, workers: int | None, scheduler: str | None
) -> AbstractContextManager[Engine]:
    """One device of this process, or a fleet, if workers or a scheduler are named."""
    if workers is not None or scheduler is not None:
        from qconv.tuner.workloads.fleet import Crew, Fleet

        return Fleet(Crew(workers, scheduler), device, where, how)
    from qconv.device import open_device
    from qconv.tuner.workloads.schedule import OneDevice

    return OneDevice(open_device(device), rows, how)


def workload_of(
    problems: Problem | str | PathLike[str] | Iterable[Problem | str], batch: int | None = None
) -> Workload:
    """Text is a key or the name of a file; within a list, it is a key."""
    from qconv.ops.registry import OPS, is_key, parse
    from qconv.tuner.workloads.listing import with_batch

    # A file may have a colon in its name, but none begins like the key of an op.
    if isinstance(problems, str) and is_key(problems) and problems.partition(":")[0] in [op.name for op in OPS]:
        problems = [problems]
    if isinstance(problems, (str, PathLike)):
        return read(Path(problems), batch)
    if not isinstance(problems, (Problem, Iterable)):
        raise ValueError(f"{quoted(problems)} is no problem: give one, or a list of them, or a file")
    given = [problems] if isinstance(problems, Problem) else list(problems)
    places = []
    for number, one in enumerate(given, 1):
        problem = parse(one) if isinstance(one, str) else one
        if not isinstance(problem, Problem):
            raise ValueError(f"problem {number} is {problem!r}: give problems, or their keys")
        places.append(Place(f"problem {number}", problem if batch is None else with_batch(problem, batch)))
    return Workload.of("the list", places)


def read(path: Path, batch: int | None = None) -> Workload:
    """By the end of its name: `.onnx` is a model, `.csv` has a layer in each row, anything else a key in each line."""
    if batch is not None and batch < 1:
        raise ValueError(f"batch={batch} must be at least 1")
    if not path.is_file():
        raise ValueError(f"{path} is no file: give a csv, an ONNX model, or a list of keys")
    if path.suffix.lower() == ".onnx":
        try:
            from qconv.onnx import shapes
        except ImportError as missing:
            raise ValueError(
                f"{path} needs onnx, which is not here ({missing}): pip install 'qconv-tune[onnx]'"
            ) from None
        return shapes.read(path, batch)
    from qconv.tuner.workloads.listing import read as read_listing

    try:
        return read_listing(path, batch)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text ({error}): a model's name ends with .onnx") from None
