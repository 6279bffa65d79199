"""cuDNN's fp16 and bf16 convolutions through PyTorch, channels last, in benchmark mode: the cost of a layer without
quantization, and the peer of one of floats."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from timing import captured, torch_times_us

from peers.case import Case, Peer, Unavailable
from qconv import Conv2d, ConvTranspose2d
from qconv.tuner.measure.protocol import TimingProtocol
from qconv.tuner.measure.verification import MOST_SETS


def prepare(case: Case) -> Peer:
    return _prepare(case, "float16")


def prepare_bfloat16(case: Case) -> Peer:
    return _prepare(case, "bfloat16")


def _prepare(case: Case, dtype: str) -> Peer:
    try:
        import torch
    except (ImportError, OSError) as error:
        raise Unavailable(f"PyTorch is not installed ({error})") from None
    problem = case.problem
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch sees no GPU")
    if problem.layout != "nhwc" or problem.pad[:2] != problem.pad[2:]:
        raise Unavailable("PyTorch pads both sides alike, and these inputs are NHWC")
    torch.backends.cudnn.benchmark = True
    # Elements have twice the bytes, so half the sets rotate over as much memory.
    sets = [
        (_drawn(torch, problem.x_shape, dtype), _drawn(torch, problem.w_shape, dtype) / 256)
        for _ in range(sets_of(problem, case.protocol))
    ]

    def convolve(x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, None, problem.stride, problem.pad[:2], problem.dilation, problem.groups)

    return replayed(torch, convolve, sets)


def transposed(problem: ConvTranspose2d, protocol: TimingProtocol) -> Peer:
    """Return `conv_transpose2d` on random images, which differ from ours: it is timed, and not compared."""
    import torch

    if problem.pad[:2] != problem.pad[2:]:
        raise Unavailable("PyTorch removes as much from both sides")
    torch.backends.cudnn.benchmark = True
    phases = problem.phases
    shape = (problem.n, problem.h, problem.w, problem.c)
    filters = (problem.c, problem.r, problem.s, problem.k // problem.groups)

    sets = [
        (_drawn(torch, shape, "float16"), _drawn(torch, filters, "float16") / 64)
        for _ in range(sets_of(phases, protocol))
    ]

    def convolve(x: Any, w: Any) -> Any:
        return torch.nn.functional.conv_transpose2d(
            x, w, None, problem.stride, problem.pad[:2], problem.output_padding, problem.groups, problem.dilation
        )

    return replayed(torch, convolve, sets)


def replayed(torch: Any, convolve: Callable[[Any, Any], Any], sets: list[tuple[Any, Any]]) -> Peer:
    """Return the call on all sets of arrays, one after the other, in one graph."""
    # Every launch reads and writes arrays of its own, as our kernels do.
    made = captured(lambda: [(x, w, convolve(x, w)) for x, w in sets])

    def run(repeats: int) -> tuple[float, ...]:
        with torch.cuda.stream(made.stream):
            made.graph.replay()
            return tuple(us / len(made.outputs) for us in torch_times_us(made.graph.replay, repeats))

    return Peer(run, {"cudnn": torch.backends.cudnn.version(), "sets": len(sets)})


def sets_of(problem: Conv2d, protocol: TimingProtocol) -> int:
    """Return how many sets of 16-bit elements rotate over as much memory as the protocol asks for."""
    elements = sum(prod(tensor.shape) for tensor in (*problem.inputs[:2], *problem.outputs))
    return min(MOST_SETS, max(1, -(-protocol.rotated_bytes // (2 * elements))))


def _drawn(torch: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return normal numbers of an NHWC shape in PyTorch's form: NCHW in channels-last order."""
    return torch.randn(shape, dtype=getattr(torch, dtype), device="cuda").permute(0, 3, 1, 2)
