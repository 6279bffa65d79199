"""Which kind of stage a convolution in a kernel of several becomes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from qconv.generator.share import Share, is_depthwise
from qconv.generator.stage import InKernel, StagePlan
from qconv.generator.stage_depthwise import depthwise_stage
from qconv.generator.stage_matrix import matrix_stage
from qconv.generator.stage_warpgroup import warpgroup_stage
from qconv.problem import Conv2d
from qconv.target import Target


@lru_cache(maxsize=4096)
def stage_plan(problem: Conv2d, share: Share, target: Target, in_kernel: InKernel) -> StagePlan:
    """Cached twice, because many configs have the same stage, and kernels ask different things of the same stage."""
    return replace(_any_stage(problem, share, target), in_kernel=in_kernel)


@lru_cache(maxsize=1024)
def _any_stage(problem: Conv2d, share: Share, target: Target) -> StagePlan:
    """The stage as if its kernel asked nothing of it."""
    make = depthwise_stage if is_depthwise(problem) else warpgroup_stage if share.wide else matrix_stage
    return make(problem, share, target, InKernel(threads=target.warp_size))
