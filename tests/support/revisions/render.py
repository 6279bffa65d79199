"""Render cases by the `qconv` of the revision in a folder: python render.py <folder>. Reads a JSON list of cases, and
writes one of answers.

It imports only names of `qconv` that revisions have had for long: parse, plan, render.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from alone import check, forget_installed

forget_installed()

from qconv import generator  # noqa: E402
from qconv.errors import Infeasible  # noqa: E402

try:
    from qconv.ops.registry import parse
    from qconv.targets.target import TARGETS
except ImportError:  # their place before families and nouns had folders
    from qconv.keys import parse  # type: ignore[import-not-found, no-redef]
    from qconv.target import TARGETS  # type: ignore[import-not-found, no-redef]


def kernels_of(plan: Any) -> list[Any]:
    """Return the plans that have their own source: `Plan.kernels`, which older plans in parts do not have."""
    return [kernel for part in getattr(plan, "parts", ()) for kernel in kernels_of(part)] or [plan]


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Return the case's kernels with their launches, and the digest that the revision gives them."""
    try:
        config = generator.config_from_json(json.dumps(case["config"]))
        plan = generator.plan(parse(case["problem"]), config, TARGETS[case["target"]])
    except (ValueError, KeyError, Infeasible) as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    kernels = []
    for part in kernels_of(plan):
        source = generator.render(part)
        # Launches determine a kernel's time as much as its code does; the shape includes the cluster size.
        launches = [{"kernel": one.kernel, "shape": [*one.grid, one.threads, one.smem_bytes]} for one in part.launches]
        kernels.append({"text": source.text, "suffix": source.suffix, "launches": launches})
    return {"digest": generator.render(plan).digest, "kernels": kernels}


def main() -> None:
    answers = [answer(case) for case in json.load(sys.stdin)]
    check(sys.argv[1])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
