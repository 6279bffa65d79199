"""The `fused` and `block` families: two or three convolutions in one kernel. The intermediate tensors stay in
shared memory: a block computes of them what a tile of the last layer's outputs looks at, all channels of it or those
that its outputs look at, and so nothing twice but what neighbouring tiles both look at."""

from __future__ import annotations

from qconv.errors import Infeasible
from qconv.fused import Chain
from qconv.generator.family import Family
from qconv.generator.fused_plan import FusedPlan
from qconv.generator.fused_space import (
    BLOCK_CHOICES,
    BLOCK_LIKELY,
    CHOICES,
    LIKELY,
    Block,
    Fused,
    Geometry,
    Weights,
    configs,
    geometry,
    is_sliced,
    structure,
    tile_outputs,
    tiles_of,
    weights_of,
)
from qconv.generator.layer import InKernel, LayerPlan
from qconv.generator.layer_config import MBARRIER_BYTES, LayerConfig
from qconv.generator.layers import layer_plan
from qconv.generator.plan import at_most, ceil_div, check_choices
from qconv.generator.tiles import check_blocks_per_sm
from qconv.target import Target

# Registers per thread below which nothing spills.
FEW_REGISTERS = 64


def plan(problem: Chain, config: Fused, target: Target) -> FusedPlan:
    check_choices(config, BLOCK_CHOICES if len(problem.LAYERS) > 2 else CHOICES)
    teams, threads = config.teams, config.warps * target.warp_size
    _check_threads(config, threads, target)
    weights = weights_of(problem, config.weights_in_smem, config.on_wgmma, target)
    sliced = is_sliced(problem, config.cluster_blocks)
    # The blocks of a cluster each compute some channels of the intermediate, for all; without clusters each computes
    # all of them, or those that it looks at itself.
    cluster = config.cluster_blocks if target.bulk_copies and not sliced else 1
    layers = _layers(problem, config, weights, cluster, target)
    slice_k = layers["first"].block_k if sliced else 0
    tile = config.tile_h, config.tile_w
    room = geometry(problem, *tile, teams, threads, config.blocks_per_sm, weights.on_wgmma, target, slice_k)
    weight_smem_bytes = sum(layers[name].weight_smem_bytes for name in weights.in_smem)
    spare_bytes = _spare_bytes(layers, weights, room, weight_smem_bytes)
    smem_bytes = teams * room.smem_bytes + weight_smem_bytes + spare_bytes + MBARRIER_BYTES * (cluster > 1)
    registers = _least_registers(layers, config.blocks_per_sm * teams * threads, target)
    check_blocks_per_sm(config.blocks_per_sm, teams * threads, smem_bytes, registers, target)
    tiles_h, tiles_w, tiles = tiles_of(problem, config.tile_h, config.tile_w)
    at_most(tiles * config.cluster_blocks, 2**30, "blocks of tiles")
    return FusedPlan(
        problem=problem,
        config=config,
        target=target,
        geometry=room,
        weights=weights,
        layer_plans=layers,
        cluster=cluster,
        weight_smem_bytes=weight_smem_bytes,
        spare_bytes=spare_bytes,
        smem_bytes=smem_bytes,
        tiles_h=tiles_h,
        tiles_w=tiles_w,
        tiles=tiles,
        blocks=min(ceil_div(tiles, teams), _room(config, cluster, target)),
    )


def _check_threads(config: Fused, threads: int, target: Target) -> None:
    at_most(config.teams * threads, target.threads_per_block, "threads of a block")
    if config.teams > 1 and (config.cluster_blocks > 1 or not config.weights_in_smem):
        raise Infeasible(
            f"teams={config.teams}: teams of a block share weights in shared memory, and no tile; 1 serves it"
        )
    if target.vendor == "amd":  # whose compiler bounds no registers
        at_most(config.warps, 8, f"warps of a block on {target.name}")


def _layers(
    problem: Chain,
    config: Fused,
    weights: Weights,
    cluster: int,
    target: Target,
) -> dict[str, LayerPlan]:
    """The layers, with what the kernel asks of each."""
    last, by_slices = problem.LAYERS[-1], is_sliced(problem, config.cluster_blocks)
    blocks = {"first": config.cluster_blocks if by_slices else cluster, last: config.cluster_blocks}
    outputs, borders = tile_outputs(problem, config.tile_h, config.tile_w)
    layers: dict[str, LayerPlan] = {}
    for name in problem.LAYERS:
        layer_config = LayerConfig(
            name,
            name == last,
            *outputs[name],
            blocks.get(name, 1),
            name in weights.on_wgmma,
            *config.subtile(name),
            config.warps // 4 * (weights.weight_ring and name == last),
            layers["first"].block_k if by_slices and name == last else 0,
        )
        asks = InKernel(
            config.warps * target.warp_size,
            borders.get(name),
            config.teams > 1,
            name in weights.in_smem,
            by_slices,
        )
        layers[name] = layer_plan(problem.layers[name], layer_config, target, asks)
        if name == "first" and blocks[name] > 1 and layers[name].block_k % 16:
            raise Infeasible(
                f"cluster_blocks={config.cluster_blocks}: {layers[name].block_k} channels of a block are no whole "
                "chunks of 16; first_n=4 serves any"
            )
    return layers


def _least_registers(layers: dict[str, LayerPlan], threads: int, target: Target) -> int:
    """Registers that a thread needs at least. A third of them can be computed again or spilled, where many are left:
    beyond that ptxas 13.0 loses pointers, so that kernels read address 0, or searches for minutes."""
    registers = max(layer.registers for layer in layers.values())
    return 2 * registers // 3 if threads * FEW_REGISTERS <= target.registers_per_sm else registers


def _spare_bytes(layers: dict[str, LayerPlan], weights: Weights, room: Geometry, weight_smem_bytes: int) -> int:
    """How far warpgroups, which read past the end of a tile's pixels, read beyond all that follows these."""
    beyond = 0
    for at, (name, layer) in enumerate(layers.items()):
        if name in weights.on_wgmma:
            follow_bytes = sum(16 * count * pixels for count, pixels in room.planes[at + 1 :]) + weight_smem_bytes
            beyond = max(beyond, layer.past_bytes - follow_bytes)
    return 16 * ceil_div(beyond, 16)


def _room(config: Fused, cluster: int, target: Target) -> int:
    """How many blocks, or groups of blocks that share tiles, the device holds at a time."""
    room = config.blocks_per_sm * target.processors
    # Clusters of more than two do not fill the groups of multiprocessors that they live in.
    usable = int(0.9 * room) if cluster > 2 else room
    return max(1, usable // config.cluster_blocks)


FAMILY = Family(("conv2d_conv2d",), Fused, CHOICES, plan, configs, likely=LIKELY, structure=structure)
BLOCK_FAMILY = Family(
    ("conv2d_conv2d_conv2d",), Block, BLOCK_CHOICES, plan, configs, likely=BLOCK_LIKELY, structure=structure
)
