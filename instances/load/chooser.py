"""The process that chooses kernels for another one. It reads neighbouring layers from stdin, one JSON object per line,
and answers each with a line on stdout. It needs no device, and ends with its stdin."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from qconv.instances.load import serving
from qconv.instances.load.building import Place
from qconv.instances.load.choice_cache import is_kept, written
from qconv.instances.load.expected import Expectations
from qconv.instances.load.neighbours import Neighbours
from qconv.targets.target import target


def main(arguments: Sequence[str]) -> None:
    """Serve a device by its name and its target. The third argument is 1 for kernels among those of a network."""
    # Redirect stdout, so that no library prints between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    name, of, in_sequence = arguments
    place = Place(name, target(of))
    for line in sys.stdin:
        answers.write(json.dumps(answered(json.loads(line), place, in_sequence == "1")) + "\n")


def answered(asked: dict[str, object], place: Place, in_sequence: bool) -> dict[str, object]:
    """Return the choices by their problems' keys, without those that are measured."""
    expectations = Expectations(place, in_sequence=in_sequence)
    problems = list(Neighbours.from_dict(asked).chosen(expectations))
    found = serving.answers(problems, place, None, in_sequence)
    return {str(problem): written(one) for problem, one in zip(problems, found, strict=True) if is_kept(one)}


if __name__ == "__main__":
    main(sys.argv[1:])
