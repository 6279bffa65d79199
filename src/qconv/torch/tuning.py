"""Tuning of a module: the problems that a call of it runs on kernels."""

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
    """Return one problem per kernel of a call with inputs of these shapes. This packs the weights again: graphs
    captured before must not run any more."""
    forget()
    with noted() as found, torch.no_grad():
        module(*inputs)
    return tuple(found)


def tune(
    module: Callable[..., Any], *inputs: Any, budget: int | Budget = DEFAULT_TRIALS, **options: Any
) -> list[Result]:
    """Call `qconv.tune` for the problems that the module runs on inputs of these shapes, with its options. The next
    call uses the winners. Capture graphs afterwards: earlier ones must not run any more."""
    found = problems(module, *inputs)
    results = tune_problems(found, budget, **options)
    forget()
    return results
