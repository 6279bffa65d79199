"""What the `halo` family costs, in clocks: fitted to 3,775 kernels of 230 layers that an H200 timed, 11 % off (root
mean square); 30 % where lanes store their outputs, not the copy engine."""

from __future__ import annotations

from qconv.generator.cost_units import Y_ZERO_POINT, at_once, moved_bytes, of_activation, of_residual
from qconv.generator.families.halo.config import CHUNKS_AT_ONCE
from qconv.generator.families.halo.plan import HaloPlan
from qconv.generator.families.wgmma.cost import SHARED
from qconv.generator.plan import ceil_div
from qconv.generator.tensor_map import CHUNK

# Clocks of a launch: its start, until the first window comes, and its end.
START = 4290
# Bytes of device memory that come in a clock while nothing else is waited for.
STREAM = 21.7
# From the request of a window until it is there.
WINDOW = 2430
# Until the first product of a tile is begun, when the one before has issued its own.
TURN = 95
# Outputs of a tile: what does not depend on their number, and eight pixels of 64 channels.
WRITE, OF_EIGHT = 457, 31.8
# How much longer those take that are added to a residual, for an instruction of `of_residual`.
OF_RESIDUAL = 0.34
# What an output takes of a scheduler, which the consumers share: without an activation, and for each instruction of
# one, since some take several clocks.
ISSUED, ISSUED_OF_ACTIVATION = 8, 1.6
# Eight pixels of 64 channels that lanes store, two channels at a time: a consumer's, and what the stores of all
# consumers take of a multiprocessor.
DIRECT, STORES = 180, 97
# Until the sums of all blocks of a cluster are there, and eight pixels of 64 channels that they send each other.
EXCHANGE, OF_EXCHANGED = 1700, 40
# Bytes of weights that come in a clock, before anything is multiplied.
CACHE = 145
# What the copy engine takes for a row that it fills with zeros behind the channels: of a window, and of the weights.
FILLED_PIXEL, FILLED_WEIGHTS = 5.4, 3.5
# What it takes for a pixel where it passes over some of a row, with channels in whole rows of shared memory and with
# zeros behind them; and at least for a copy.
PIXEL_OF_STRIDE, FILLED_PIXEL_OF_STRIDE, COPY_OF_STRIDE = 2.4, 3.6, 290


# What it takes less until the first window comes, where lanes of the producer bring it; what 128 of their chunks take
# of the producer, and each copy of one; and where they load and store: what so many as are under way together take.
START_OF_LANES = 930
BROUGHT, COPY_OF_LANE, LOADED = 130, 25, 1330


def cost(plan: HaloPlan) -> float:
    issued = ceil_div(plan.tiles, plan.blocks) * _tile(plan) + _first(plan)
    start = START - START_OF_LANES * plan.gathers
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 1.62) + start


def _first(plan: HaloPlan) -> float:
    """Until the weights are there."""
    return plan.weight_bytes / CACHE + _filled_rows(plan, plan.weight_bytes) * FILLED_WEIGHTS


def _filled_rows(plan: HaloPlan, slabs_bytes: int) -> float:
    """Those of the last slab, if it is wider than the channels that are left for it."""
    return slabs_bytes / (plan.windows.row * plan.windows.slabs) if plan.seen.c % plan.windows.row else 0


def _tile(plan: HaloPlan) -> float:
    """One consumer multiplies at a time; all of them write at once. A slot is free for the next window when the tile is
    multiplied, and if residuals came with it, when it is written."""
    config, columns = plan.config, plan.columns
    # An instruction of 64 rows: what it multiplies, or what it reads of shared memory.
    product = at_once(columns / 2, (64 * 32 + 32 * columns) / SHARED, 20)
    multiplied = plan.products * product + TURN
    written = _outputs(plan)
    turn = max(multiplied, (multiplied + written) / config.consumers, STORES * _stored(plan), _issued(plan))
    held = WINDOW + multiplied + (written if plan.residual_in_smem else 0)
    return max(turn, held * plan.windows.count / plan.slots, _copied(plan))


def _copied(plan: HaloPlan) -> float:
    """What the copy engine takes for the windows of a tile, beside their bytes, or the lanes that bring them."""
    windows = plan.windows
    if plan.gathers:
        return windows.count * _brought(plan)
    if not windows.skips:
        return _filled_rows(plan, windows.bytes) * FILLED_PIXEL
    pixel = FILLED_PIXEL_OF_STRIDE if plan.seen.c % windows.row else PIXEL_OF_STRIDE
    return windows.count * windows.slabs * max(COPY_OF_STRIDE, windows.rows * windows.columns * pixel)


def _brought(plan: HaloPlan) -> float:
    """What the producer takes for a window."""
    if plan.copies:
        return plan.lane_chunks * (BROUGHT + COPY_OF_LANE * CHUNK / plan.part)
    return ceil_div(plan.lane_chunks, CHUNKS_AT_ONCE) * LOADED


def _issued(plan: HaloPlan) -> float:
    """By a scheduler for a tile: a lane of each of its warps has a row's share of 64 channels, four outputs."""
    of_lane = plan.made_rows * plan.config.channels / 64 * 4
    return of_lane * (ISSUED + ISSUED_OF_ACTIVATION * of_activation(plan.problem))


def _outputs(plan: HaloPlan) -> float:
    config, problem = plan.config, plan.problem
    made, added = OF_EIGHT * plan.made_rows * config.channels / 64, of_residual(problem) * OF_RESIDUAL
    computed = 1 + (of_activation(problem) + Y_ZERO_POINT * problem.quantization.y_zero_point) / 8
    exchanged = 0.0
    if config.blocks > 1:
        exchanged = EXCHANGE + OF_EXCHANGED * config.rows * config.channels / 64
    if plan.staged:
        return exchanged + WRITE + made * (computed + added)
    return exchanged + WRITE + made * computed + DIRECT * _stored(plan) * (1 + added)


def _stored(plan: HaloPlan) -> float:
    """What lanes store of a tile, in eights of pixels of 64 channels, as if two channels at a time."""
    config = plan.config
    if plan.staged:
        return 0
    return plan.made_rows * min(config.channels, plan.problem.k) / 64 * 2 / plan.vector_k
