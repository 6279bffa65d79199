"""A winner in use: what was chosen for a problem, loaded and ready to launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qconv.device import Device
from qconv.device.cache import Binary
from qconv.generator import Plan
from qconv.instances.choose.choice import Choice, Origin
from qconv.instances.load.executable import Bound, Packed
from qconv.instances.load.pair import PackedPair, Runnable
from qconv.op import Problem


@dataclass(frozen=True, eq=False)
class Instance:
    """What `lookup` gives. What is merely measured or tested is a `Runnable`, for nobody chose it."""

    choice: Choice
    executable: Runnable

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
        """The compiled kernel; the last one's where there are several."""
        return self.executable.binary

    def pack(self, *weights: Any, stream: Any = None, **named: Any) -> Packed | PackedPair:
        """Check the weights and the parameters, and fold what follows from both. What is given in another layout
        (`w_layout`) is copied; what is not is read where it lies."""
        return self.executable.pack(*weights, stream=stream, **named)

    def bind(self, *inputs: Any, out: Any = None, overlap: bool = False, **parameters: Any) -> Bound:
        """Check everything once and pack the arguments; the result launches with nothing left to do.

        `overlap` (where `plan.overlaps`): each launch may begin before the kernel in front of it on the stream has
        ended, to hide the time between two kernels; in a CUDA graph as well. Until that kernel has ended it reads
        weights and parameters, so that kernel must not write them: `refold()` comes between. Activations, the residual
        and the outputs are safe: they are read and written after the wait.
        """
        return self.executable.bind(*inputs, out=out, overlap=overlap, **parameters)

    def __call__(
        self, *inputs: Any, out: Any = None, stream: Any = None, overlap: bool = False, **parameters: Any
    ) -> Any:
        """One call on the caller's stream (by default the current one); returns the output. `overlap`: as for `bind`,
        but where the call itself folds or turns weights, it waits for that: pack them once."""
        return self.executable(*inputs, out=out, stream=stream, overlap=overlap, **parameters)
