"""cuDNN's fp16 convolution through PyTorch, channels last, in benchmark mode: the cost of a layer without
quantization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from timing import captured, input_sets, torch_times_us

from peers.case import Case, Peer, Unavailable
from qconv import ConvTranspose2d
from qconv.tuner.measure.protocol import TimingProtocol
from qconv.tuner.measure.verification import MOST_SETS


def prepare(case: Case) -> Peer:
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
        # int8 products overflow fp16; smaller weights have the same mantissa bits.
        (_fp16(torch, x), _fp16(torch, w) / 256)
        for x, w in input_sets(case.device, case.drawn, 2 * problem.io_bytes, case.protocol)
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
    shape = (problem.n, problem.c, problem.h, problem.w)
    filters = (problem.c, problem.k // problem.groups, problem.r, problem.s)

    def drawn(*size: int) -> Any:
        made = torch.randn(size, dtype=torch.float16, device="cuda")
        return made.to(memory_format=torch.channels_last)

    count = min(MOST_SETS, max(1, -(-protocol.rotated_bytes // (2 * phases.io_bytes))))
    sets = [(drawn(*shape), drawn(*filters) / 64) for _ in range(count)]

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


def _fp16(torch: Any, array: Any) -> Any:
    """Return NHWC data in PyTorch's form: NCHW in channels-last order."""
    return torch.from_dlpack(array).permute(0, 3, 1, 2).to(torch.float16)
