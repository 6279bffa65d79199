"""An instance: the choice for a problem, loaded and ready to launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qconv.device import Device
from qconv.device.cache import Binary
from qconv.generator import Plan
from qconv.instances.choose import Choice, Origin
from qconv.instances.load.executable import Bound, Packed
from qconv.instances.load.pair import PackedPair, Runnable
from qconv.op import Problem


@dataclass(frozen=True, eq=False)
class Instance:
    """The result of `lookup`. A kernel that is only measured or tested is a `Runnable`, because nobody chose it."""

    choice: Choice
    executable: Runnable

    def __repr__(self) -> str:
        return f"<Instance: {self.origin}, {self.plan.config} for {self.problem} on {self.device.name}>"

    @property
    def problem(self) -> Problem:
        return self.choice.plan.problem

    @property
    def plan(self) -> Plan:
        return self.choice.plan

    @property
    def origin(self) -> Origin:
        return self.choice.origin

    @property
    def reason(self) -> str:
        return self.choice.reason

    @property
    def why(self) -> str:
        return self.choice.why

    @property
    def device(self) -> Device:
        return self.executable.device

    @property
    def binary(self) -> Binary:
        """The compiled kernel, or the last one of several."""
        return self.executable.binary

    def pack(self, *weights: Any, stream: Any = None, **named: Any) -> Packed | PackedPair:
        """Check the weights and the parameters, and fold what depends on both. Weights in another layout (`w_layout`)
        are copied, all others are used in place."""
        return self.executable.pack(*weights, stream=stream, **named)

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False, **parameters: Any) -> Bound:
        """Check all arguments and pack them, so that nothing but the launch is left to do.

        With `overlap` (where `plan.overlaps`), a launch may begin before the previous kernel on the stream has ended,
        which hides the time between two kernels, also in a CUDA graph. Before that kernel has ended it reads only
        weights and parameters, so that kernel must not write them: call `refold()` in between. Activations, residual
        and outputs are safe, because they are accessed after the wait.
        """
        return self.executable.bind(*inputs, out=out, overlap=overlap, **parameters)

    def __call__(
        self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False, **parameters: Any
    ) -> Any:
        """Run once on the caller's stream (by default the current one) and return the output. `overlap` is as for
        `bind`, but a call that folds or repacks weights itself waits for that: pack them once instead."""
        return self.executable(*inputs, out=out, stream=stream, overlap=overlap, **parameters)
