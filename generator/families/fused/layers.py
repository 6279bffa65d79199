"""The choice of a layer's kind: depthwise, or a matrix product of warps or of warpgroups."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from qconv.errors import Infeasible
from qconv.generator.convolution import why_not_bytes
from qconv.generator.families.fused.depthwise import depthwise_layer
from qconv.generator.families.fused.layer import InKernel, LayerConfig, LayerPlan, is_depthwise
from qconv.generator.families.fused.matrix import matrix_layer
from qconv.generator.families.fused.warpgroup import warpgroup_layer
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target


@lru_cache(maxsize=4096)
def layer_plan(problem: Conv2d, config: LayerConfig, target: Target, in_kernel: InKernel) -> LayerPlan:
    """Plan a layer. The cache has two levels: many configs have the same layer, and kernels differ in what they demand
    of it."""
    return replace(any_layer(problem, config, target), in_kernel=in_kernel)


@lru_cache(maxsize=1024)
def any_layer(problem: Conv2d, config: LayerConfig, target: Target) -> LayerPlan:
    """Plan a layer without its kernel's demands. Raise Infeasible where layers do not have these types."""
    make = depthwise_layer if is_depthwise(problem) else warpgroup_layer if config.on_wgmma else matrix_layer
    if make is warpgroup_layer and (reason := why_not_bytes(problem)) is not None:
        raise Infeasible(reason)
    return make(problem, config, target, InKernel(threads=target.warp_size))
