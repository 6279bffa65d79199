"""cuDNN's fp16 convolution through PyTorch, channels last, in benchmark mode: the cost of a layer without
quantization."""

from __future__ import annotations

from typing import Any

from timing import input_sets, torch_times_us

from peers.case import Case, Peer, Unavailable


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
    torch.cuda.synchronize()

    def convolve(x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, None, problem.stride, problem.pad[:2], problem.dilation, problem.groups)

    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        # cuDNN tries its algorithms here: it must not do so inside the graph.
        for x, w in sets:
            convolve(x, w)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
        # Keep all arrays alive: a graph does not, and every launch reads and writes its own, as our kernels do.
        kept = [(x, w, convolve(x, w)) for x, w in sets]

    def run(repeats: int) -> tuple[float, ...]:
        with torch.cuda.stream(stream):
            graph.replay()
            return tuple(us / len(kept) for us in torch_times_us(graph.replay, repeats))

    return Peer(run, {"cudnn": torch.backends.cudnn.version(), "sets": len(sets)})


def _fp16(torch: Any, array: Any) -> Any:
    """Return NHWC data in PyTorch's form: NCHW in channels-last order."""
    return torch.from_dlpack(array).permute(0, 3, 1, 2).to(torch.float16)
