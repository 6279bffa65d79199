"""The part of qconv that packages outside of it build on: version 1. `qconv.plugins` finds what they add.

A name stays here, with its meaning, as long as the version does; names may be added. A module that an entry point names
has `INTERFACE = 1`.
"""

from __future__ import annotations

from qconv.errors import Infeasible
from qconv.generator.convolution import (
    ConvolutionPlan,
    argument_fields,
    fold_constants,
    fold_launches,
    problem_constants,
)
from qconv.generator.families import Family
from qconv.generator.plan import (
    Config,
    Constant,
    Context,
    Field,
    Launch,
    Plan,
    at_most,
    ceil_div,
    check_choices,
)
from qconv.op import Array, Op, Option, Problem, Sample, Tensor, checked_size, read_integer, read_key
from qconv.plugins import VERSION
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target
from qconv.tuner.search.strategies import Space, Strategy

__all__ = [
    "VERSION",
    "Array",
    "Config",
    "Constant",
    "Context",
    "Conv2d",
    "ConvolutionPlan",
    "Family",
    "Field",
    "Infeasible",
    "Launch",
    "Op",
    "Option",
    "Plan",
    "Problem",
    "Sample",
    "Space",
    "Strategy",
    "Target",
    "Tensor",
    "argument_fields",
    "at_most",
    "ceil_div",
    "check_choices",
    "checked_size",
    "fold_constants",
    "fold_launches",
    "problem_constants",
    "read_integer",
    "read_key",
]
