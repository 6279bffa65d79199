"""What a module runs on kernels, to be tuned: the problems are those of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from qconv.instances.load.serving import noted
from qconv.op import Problem
from qconv.torch.packing import forget
from qconv.tuning import DEFAULT_TRIALS
from qconv.tuning import tune as tune_problems

if TYPE_CHECKING:
    from qconv.tuner.workloads.allocation import Budget
    from qconv.tuner.workloads.result import Result


def problems(module: Callable[..., Any], *inputs: Any) -> tuple[Problem, ...]:
    """One for each kernel of a call with inputs of these shapes. It packs the weights anew, so that graphs that were
    captured before must not run any more."""
    forget()
    with noted() as found, torch.no_grad():
        module(*inputs)
    return tuple(found)


def tune(
    module: Callable[..., Any], *inputs: Any, budget: int | Budget = DEFAULT_TRIALS, **options: Any
) -> list[Result]:
    """`qconv.tune` of what the module runs on inputs of these shapes, with its options; its next call has the winners.
    Capture graphs afterwards: those of before must not run any more."""
    found = problems(module, *inputs)
    results = tune_problems(found, budget, **options)
    forget()
    return results
