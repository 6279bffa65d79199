"""Choices for many layers at once, in processes of their own: ranking configs is Python's own work, which keeps one
core busy for seconds where a network meets new shapes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

from qconv.instances.choose.lookup import Place
from qconv.instances.load import serving
from qconv.instances.load.choice_cache import Answer, read
from qconv.instances.load.neighbours import Neighbours
from qconv.op import Problem

log = logging.getLogger("qconv")

# Whatever lies in the current folder is no module of it (-P).
CHOOSER = (sys.executable, "-P", "-m", "qconv.instances.load.chooser")
# Without QCONV_PROCESSES, at most this number. With fewer than LEAST_PROCESSES, the imports of a process, most of a
# second, take about as long as it saves.
MOST_PROCESSES, LEAST_PROCESSES = 16, 3
# Problems to be chosen for which processes are started.
LEAST_PROBLEMS = 8


def most_processes() -> int:
    """Return how many processes may choose kernels at once: QCONV_PROCESSES, or the cores of this process."""
    given = os.environ.get("QCONV_PROCESSES")
    if not sys.executable or getattr(sys, "frozen", False):  # a program that is no Python interpreter
        return 1
    if given is None:
        return min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"QCONV_PROCESSES={given!r} must be a number of at least 1: correct it, or unset it")
    return int(given)


def choose_ahead(asked: Sequence[Neighbours], device: Place) -> None:
    """Choose kernels with the default databases, as later lookups will. What fails here is chosen by its own lookup."""
    if serving.is_answered() or most_processes() < LEAST_PROCESSES:
        return
    in_sequence = serving.is_in_sequence()
    every = [problem for one in asked for problem in one.problems]
    unknown = set(serving.unknown(every, device, in_sequence))
    new = [one for one in dict.fromkeys(asked) if not unknown.isdisjoint(one.problems)]
    if len(unknown) < LEAST_PROBLEMS or len(new) < 2:
        return
    # The longest first, so that none is left at the end.
    new.sort(key=lambda one: len(one.every), reverse=True)
    waiting: SimpleQueue[Neighbours] = SimpleQueue()
    for one in new:
        waiting.put(one)
    processes = min(most_processes(), len(new))
    with ThreadPoolExecutor(processes) as pool:
        jobs = [pool.submit(lambda: list(_answers(waiting, device, in_sequence))) for _ in range(processes)]
        for job in jobs:
            for answers in job.result():
                serving.remember(answers, device, in_sequence)


def _answers(waiting: SimpleQueue[Neighbours], device: Place, in_sequence: bool) -> Iterator[dict[Problem, Answer]]:
    """Ask one process until nothing is waiting. Where it ends early, the others go on."""
    command = (*CHOOSER, device.name, device.target.name, "1" if in_sequence else "0")
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError as error:
        log.info("no process chooses kernels: %s", error)
        return
    try:
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            while (one := _next(waiting)) is not None:
                process.stdin.write(json.dumps(one.as_dict()) + "\n")
                process.stdin.flush()
                if not (line := process.stdout.readline()):
                    raise OSError("it ended early")
                yield _read(line, one, device)
    except OSError as error:
        log.info("a process that chose kernels is gone, and their lookups choose them: %s", error)


def _next(waiting: SimpleQueue[Neighbours]) -> Neighbours | None:
    try:
        return waiting.get_nowait()
    except Empty:
        return None


def _read(line: str, asked: Neighbours, device: Place) -> dict[Problem, Answer]:
    found: dict[Problem, Answer] = {}
    try:
        answers = json.loads(line)
        for problem in asked.every:
            if (one := answers.get(str(problem))) is not None:
                found[problem] = read(one, problem, device.target)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("the choices of another process are not used: %s", error)
    return found
