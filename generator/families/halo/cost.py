"""The time of a `halo` kernel, in clocks: fitted to 3,775 kernels of 230 layers timed on an H200. The root mean square
error is 11 %; 30 % where lanes store the outputs instead of TMA."""

from __future__ import annotations

from qconv.generator.cost_units import Y_ZERO_POINT, at_once, moved_bytes, of_activation, of_residual
from qconv.generator.families.halo.config import CHUNKS_AT_ONCE
from qconv.generator.families.halo.plan import HaloPlan
from qconv.generator.families.wgmma import SHARED
from qconv.generator.plan import ceil_div
from qconv.generator.tensor_map import CHUNK

# Clocks of a launch: its start, the wait for the first window, and its end.
START = 4290
# Bytes of device memory per clock and multiprocessor, without other stalls.
STREAM = 21.7
# Clocks from the request of a window until it is complete.
WINDOW = 2430
# Clocks from the last product issued for a tile to the first of the next.
TURN = 95
# Clocks to write the outputs of a tile: a fixed part, and one per eight pixels of 64 channels.
WRITE, OF_EIGHT = 457, 31.8
# Fraction by which residuals lengthen that, per instruction of `of_residual`.
OF_RESIDUAL = 0.34
# Clocks per output of a scheduler, which the consumers share: without an activation, and per instruction of one, since
# some take several clocks.
ISSUED, ISSUED_OF_ACTIVATION = 8, 1.6
# Clocks for lanes to store eight pixels of 64 channels, two channels at a time: of a consumer, and of the
# multiprocessor for the stores of all consumers.
DIRECT, STORES = 180, 97
# Clocks to exchange sums in a cluster: a fixed part, and one per eight pixels of 64 channels.
EXCHANGE, OF_EXCHANGED = 1700, 40
# Bytes of weights per clock, before anything is multiplied.
CACHE = 145
# Clocks of TMA for a row that it fills with zeros behind the channels: of a window, and of the weights.
FILLED_PIXEL, FILLED_WEIGHTS = 5.4, 3.5
# Clocks of TMA per pixel where it skips pixels of a row: with channels in whole rows of shared memory, and with zeros
# behind them; and the least per copy.
PIXEL_OF_STRIDE, FILLED_PIXEL_OF_STRIDE, COPY_OF_STRIDE = 2.4, 3.6, 290
# Clocks that a launch saves where lanes of the producer bring the windows.
START_OF_LANES = 930
# Clocks of the producer per 128 chunks and per copy of a chunk; and, where lanes load and store, for the chunks that
# are in flight together.
BROUGHT, COPY_OF_LANE, LOADED = 130, 25, 1330


def cost(plan: HaloPlan) -> float:
    issued = ceil_div(plan.tiles, plan.blocks) * _tile(plan) + _first(plan)
    start = START - START_OF_LANES * plan.gathers
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 1.62) + start


def _first(plan: HaloPlan) -> float:
    """Clocks until the weights are complete."""
    return plan.weight_bytes / CACHE + _filled_rows(plan, plan.weight_bytes) * FILLED_WEIGHTS


def _filled_rows(plan: HaloPlan, slabs_bytes: int) -> float:
    """Rows of the last slab, if it is wider than the channels that are left for it."""
    return slabs_bytes / (plan.windows.row * plan.windows.slabs) if plan.windows.pixel % plan.windows.row else 0


def _tile(plan: HaloPlan) -> float:
    """Clocks per tile. One consumer multiplies at a time, while all of them write. A slot is free for the next window
    when its tile is multiplied or, if residuals came with it, written."""
    config, columns = plan.config, plan.columns
    # An instruction of 64 rows is bound by its products or by its reads of shared memory.
    product = at_once(columns / 2, (64 * 32 + 32 * columns) / SHARED, 20)
    multiplied = plan.products * product + TURN
    written = _outputs(plan)
    turn = max(multiplied, (multiplied + written) / config.consumers, STORES * _stored(plan), _issued(plan))
    held = WINDOW + multiplied + (written if plan.residual_in_smem else 0)
    return max(turn, held * plan.windows.count / plan.slots, _copied(plan))


def _copied(plan: HaloPlan) -> float:
    """Clocks of TMA for the windows of a tile, beside their bytes, or of the lanes that bring them."""
    windows = plan.windows
    if plan.gathers:
        return windows.count * _brought(plan)
    if not windows.skips:
        return _filled_rows(plan, windows.bytes) * FILLED_PIXEL
    pixel = FILLED_PIXEL_OF_STRIDE if windows.pixel % windows.row else PIXEL_OF_STRIDE
    return windows.count * windows.slabs * max(COPY_OF_STRIDE, windows.rows * windows.columns * pixel)


def _brought(plan: HaloPlan) -> float:
    """Clocks of the producer per window that lanes bring."""
    if plan.copies:
        return plan.lane_chunks * (BROUGHT + COPY_OF_LANE * CHUNK / plan.part)
    return ceil_div(plan.lane_chunks, CHUNKS_AT_ONCE) * LOADED


def _issued(plan: HaloPlan) -> float:
    """Clocks of a scheduler per tile: each row of 64 channels gives a lane four outputs."""
    of_lane = plan.own_rows * plan.config.channels / 64 * 4
    return of_lane * (ISSUED + ISSUED_OF_ACTIVATION * of_activation(plan.problem))


def _outputs(plan: HaloPlan) -> float:
    config, problem = plan.config, plan.problem
    made, added = OF_EIGHT * plan.own_rows * config.channels / 64, of_residual(problem) * OF_RESIDUAL
    computed = 1 + (of_activation(problem) + Y_ZERO_POINT * problem.quantization.y_zero_point) / 8
    exchanged = 0.0
    if config.cluster_blocks > 1:
        exchanged = EXCHANGE + OF_EXCHANGED * config.rows * config.channels / 64
    if plan.staged:
        return exchanged + WRITE + made * (computed + added)
    return exchanged + WRITE + made * computed + DIRECT * _stored(plan) * (1 + added)


def _stored(plan: HaloPlan) -> float:
    """Eights of pixels of 64 channels of a tile that lanes store, as if two channels at a time."""
    config = plan.config
    if plan.staged:
        return 0
    return plan.own_rows * min(config.channels, plan.problem.k) / 64 * 2 / plan.vector_k
