"""Whole PyTorch networks, quantized by torchao's PT2E, lowered, and run as one CUDA graph, compared with the same
networks in fp16 by Inductor, in the same run.

    python bench/lowered.py resnet50 mobilenet_v2 --seconds 60 --db torch.sqlite --out bench/results/nvidia-h200

The networks are those of the zoo (`zoo_networks.py`) and of `torchvision.models`, with the weights of
`quantize_network.py`, calibrated on random images by the quantizer of X86Inductor. A row names each node that stays in
PyTorch, and why. The time of a run includes the copy of the input, as in `networks.py`. The integers of
each layer are compared with those of the quantized graph, both given the graph's inputs, on a few images. With
--integer-inputs the images are quantized before anything is timed, as if a camera or a decoder supplied bytes.
`--device cpu --size 64` runs everything without a GPU.
"""

from __future__ import annotations

import collections
import sys
import warnings
from typing import Any

import torch
from current import kernels_of
from network_timing import (
    SIZE,
    Row,
    as_graph,
    by_the_wall,
    images,
    measured,
    opened,
    parser_of,
    printed,
    protocol,
    summary,
    timed_ms,
    torch_events,
)
from quantize_network import CALIBRATION, SEED, seeded, with_statistics
from report import Report
from timing import release
from zoo_networks import NETWORKS

import qconv
import qconv.torch
from qconv.device import Device, open_device
from qconv.integer_input import IntegerInput
from qconv.torch.pattern import REPLACES
from qconv.torch.tensor_ops import CONVERSION_MODE

# Images on which the layers are compared.
COMPARED = 2


def network_of(name: str, size: int) -> Any:
    """Return a network of the zoo, or of torchvision, with seeded weights."""
    if name not in NETWORKS:
        return seeded(name)
    torch.manual_seed(SEED)
    return with_statistics(NETWORKS[name].make(size), NETWORKS[name].shape(size))


def quantized(name: str, size: int) -> Any:
    """Quantize a network on the CPU, for any batch."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    # A dynamic batch is a symbolic number.
    shapes = ({0: torch.export.Dim("n", min=1, max=1024)},)
    model = network_of(name, size)
    given = (torch.randn(CALIBRATION, 3, size, size),)
    # Only a strict export lets the quantizer distinguish the uses of one nn.ReLU.
    exported = torch.export.export(model, given, dynamic_shapes=shapes, strict=True).module()
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(*given)
    return convert_pt2e(prepared)


def differences(graph: Any, lowered: Any, x: Any) -> Row:
    """Return how many integers of the lowered layers differ and by how much, if each layer gets the graph's inputs."""
    values: dict[str, Any] = {}
    found: Row = {"integers": 0, "differing": 0, "by_at_most": 0, "real_by_at_most": 0.0}

    class Recorded(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            values[n.name] = super().run_node(n)
            return values[n.name]

    class Compared(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            y = super().run_node(n)
            want = values.get(n.meta.get(REPLACES, ""))
            if want is None:
                return y
            away = (y.double() - want.double()).abs()
            if y.dtype.is_floating_point:
                largest = float(away.max() / want.abs().max().clamp(min=1e-30))
                found["real_by_at_most"] = max(found["real_by_at_most"], largest)
            else:
                found["integers"] += y.numel()
                found["differing"] += int((away > 0).sum())
                found["by_at_most"] = max(found["by_at_most"], int(away.max()))
            return want

    with torch.no_grad():
        Recorded(graph).run(x)
        Compared(lowered).run(x)
    return found


def place_of(device: Device) -> Any:
    return torch.device("cpu" if device.target.vendor == "cpu" else device.spec)


def kinds_of(lowered: Any) -> dict[str, int]:
    counted = collections.Counter(str(node.target) for node in lowered.graph.nodes if node.op == "call_function")
    return dict(counted.most_common())


def quantized_images(images: list[Any], given: IntegerInput) -> list[Any]:
    dtype = getattr(torch, given.dtype)
    made = [
        torch.ops.qconv.quantize.scalar(x, given.scale, given.zero_point, out_dtype=dtype, mode=CONVERSION_MODE)
        for x in images
    ]
    return [x.contiguous(memory_format=torch.channels_last) for x in made]


def ours(
    graph: Any,
    lowered: Any,
    device: Device,
    inputs: list[Any],
    seconds: float,
    db: str | None,
    integer_inputs: bool = False,
    fuses: bool = False,
) -> Row:
    place = place_of(device)
    there = [torch.from_numpy(x).to(place).to(memory_format=torch.channels_last) for x in inputs]
    if seconds:
        budget = qconv.Budget(seconds=seconds)
        found = [*qconv.torch.problems(lowered, there[0])]
        found += qconv.torch.alternatives(lowered, there[0]) if fuses else ()
        qconv.tune(found, budget, device=device.spec, db=db)
        qconv.torch.forget()
    if fuses:
        lowered = qconv.torch.fuse(lowered, there[0])
    few = there[0][:COMPARED].contiguous(memory_format=torch.channels_last)
    compared = differences(graph, lowered, few)
    problems = qconv.torch.problems(lowered, there[0])
    network, given = lowered, there
    if integer_inputs:
        network, numbers = qconv.torch.with_integer_inputs(lowered)
        (of_images,) = numbers.values()
        given = quantized_images(there, of_images)
    if place.type == "cpu":
        with torch.no_grad():
            ms = timed_ms(lambda number: network(given[number]), lambda: None, by_the_wall, rounds=1, runs=2)
        same = True
    else:
        run, y = as_graph(network, given)
        ms = timed_ms(run, torch.cuda.synchronize, torch_events())
        run(1)
        with torch.no_grad():
            same = bool(torch.equal(y.clone(), lowered(there[1])))
    return {
        "inputs": str(given[0].dtype).removeprefix("torch."),
        "ms": ms,
        "images_per_s": len(inputs[0]) / ms * 1e3,
        "verified": same and compared["by_at_most"] <= 1,
        "compared": compared,
        "nodes": kinds_of(network),
        "kernels": len(problems),
        **kernels_of(problems, device, db),
        "elsewhere": [str(row) for row in qconv.torch.explain(lowered).splitlines() if ": PyTorch" in row],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__, "lowered")
    parser.add_argument("networks", nargs="+", help="as the zoo or torchvision.models calls them")
    parser.add_argument("--size", type=int, default=SIZE, help="of the images; default: %(default)s")
    parser.add_argument("--integer-inputs", action="store_true", help="images that are quantized already")
    parser.add_argument("--fuse", action="store_true", help="several layers in one kernel, where that is faster")
    parser.add_argument("--no-peer", action="store_true", help="without Inductor, which takes half a minute each")
    options = opened(parser, arguments)
    warnings.simplefilter("ignore")
    torch.backends.cudnn.allow_tf32 = False  # the reference must be computed in float32
    device = open_device(options.device)
    peer = not options.no_peer and device.target.vendor != "cpu"
    report = Report(options.out, options.suite, device, protocol(options.seconds), options.commit)
    rows: list[Row] = []
    for name in options.networks:
        graph = quantized(name, options.size)
        lowered = qconv.torch.lower(graph).to(place_of(device))
        graph = graph.to(place_of(device))
        for batch in map(int, options.batch.split(",")):
            inputs = images(batch, options.size)
            mine = ours(
                graph, lowered, device, inputs, options.seconds, options.db, options.integer_inputs, options.fuse
            )
            qconv.torch.forget()
            release(device)
            rows.append(measured(name, device, inputs, peer, mine))
            report.write(rows, summary(rows))
            printed(rows[-1])
    if wrong := [f"{row['name']} N={row['batch']}" for row in rows if not row["verified"]]:
        sys.exit(f"these differ from the quantized graph by more than one step: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
