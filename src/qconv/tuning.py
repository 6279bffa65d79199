"""The Python interface of the tuner: `qconv.tune(problems or a file, ...)`. The command reads its workloads here
too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
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
    db: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    timeout_s: float = 60.0,
    strategy: str | None = None,
    floats: str | None = None,
    keep: Collection[str] | None = None,
    watch: Callable[[Step], None] = lambda step: None,
) -> Results:
    """Tune problems, their keys, or the problems of a file: an ONNX model, a csv, or a list of keys. A problem that
    occurs twice counts twice. `budget` is the average number of trials per problem, or a `qconv.Budget` with seconds,
    or with `gain_percent`: a trial begins only if it is expected to shorten the best time by at least that percentage.

    Trials go where the network spends its time. The database is the command's; measurements of an earlier run are
    reused, and the next `qconv.lookup` finds the winners. `workers` is the number of local processes that measure, each
    on a GPU of its own; `scheduler` is the address of a Dask scheduler whose workers measure. With `floats` and `keep`,
    the problems are those of a `qconv.onnx.Session` of the model with these.

    If the problems are those of a network (`session.problems` or a model), the last step races the whole network. New
    winners that make it slower are not installed, and `race` of the result has both times. This takes some seconds
    more.
    """
    from qconv.instances.load.serving import default_database, forget
    from qconv.tune_db.database import Database
    from qconv.tuner.search import strategies
    from qconv.tuner.search.tune import Search
    from qconv.tuner.workloads.result import results

    if floats is not None or keep is not None:
        problems, batch = problems_of_session(problems, batch, device, floats=floats, keep=keep), None
    workload = workload_of(problems, batch)
    limits = budget if isinstance(budget, Budget) else Budget(budget)
    chosen = strategies.DEFAULT if strategy is None else strategy
    how = Search(0, timeout_s, strategy=chosen, gain_percent=limits.gain_percent)
    where = db or default_database()
    with Database.open(where) as rows, engine_of(device, rows, where, how, workers, scheduler) as engine:
        race = tune_and_race(workload, network_of(problems, batch, device), engine, rows, limits, watch)
        found = Results(results(workload, engine.station, rows))
    found.race = race
    forget()
    return found


class Results(list["Result"]):
    """One result per problem. `race` is the race of the network, or why there was none; None for problems alone."""

    race: Race | str | None = None


def tune_and_race(
    workload: Workload,
    network: Raceable | str | None,
    engine: Engine,
    rows: Database,
    budget: Budget,
    watch: Callable[[Step], None],
) -> Race | str | None:
    """Tune, then race the network. Return the race, or the reason why there is none, or None without a network."""
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
    """Return the network to race as a whole: the one whose problems these are, or a session of the model. A text says
    why there is none; None stands for problems without a network."""
    if isinstance(problems, NetworkProblems):
        return problems.network if batch is None else f"the session has a batch of its own: leave batch={batch} out"
    if not isinstance(problems, (str, PathLike)) or Path(problems).suffix.lower() != ".onnx":
        return None
    from qconv.onnx.session import session_of

    try:
        return session_of(Path(problems), batch, device)
    except ValueError as error:
        return str(error)


def problems_of_session(
    model: object, batch: int | None, device: str | None, floats: str | None, keep: Collection[str] | None
) -> NetworkProblems:
    """Return the problems of a session of a model whose float layers multiply this type."""
    if not isinstance(model, (str, PathLike)) or Path(model).suffix.lower() != ".onnx":
        raise ValueError(f"floats={quoted(floats)} and keep belong to an ONNX model: problems have their own types")
    from qconv.onnx.session import session_of

    return session_of(Path(model), batch, device, floats=floats, keep=keep).problems


def engine_of(
    device: str | None, rows: Database, where: str, how: Search, workers: int | None, scheduler: str | None
) -> AbstractContextManager[Engine]:
    """Return one device of this process, or a fleet if workers or a scheduler are named."""
    if workers is not None or scheduler is not None:
        from qconv.tuner.workloads.fleet import Crew, Fleet

        return Fleet(Crew(workers, scheduler), device, where, how)
    from qconv.device import open_device
    from qconv.tuner.workloads.schedule import OneDevice

    return OneDevice(open_device(device), rows, how)


def workload_of(
    problems: Problem | str | PathLike[str] | Iterable[Problem | str], batch: int | None = None
) -> Workload:
    """Return the workload of `problems`. A text is a key or a file name; within a list, it is a key."""
    from qconv.ops.registry import OPS, is_key, parse
    from qconv.tuner.workloads.listing import with_batch

    # A file name may contain a colon, but it never begins like the key of an op.
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
    """Read a workload by its suffix: `.onnx` is a model, `.csv` has a layer per row, any other file a key per line."""
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
