"""Whole networks of torchao's PT2E, lowered: every layer is within one step of the graph's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torchao", reason="torchao is not installed: pip install torchao")

from torch_networks import differences, images, quantized, targets  # noqa: E402

import qconv.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def quantizer(name: str) -> Any:
    if name == "x86":
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    xnnpack = pytest.importorskip("torchao.testing.pt2e._xnnpack_quantizer", reason="this torchao has no XNNPACK")
    config = xnnpack.get_symmetric_quantization_config(is_per_channel=name == "xnnpack")
    return xnnpack.XNNPACKQuantizer().set_global(config)


@pytest.mark.turns
@pytest.mark.parametrize("network", ["resnet", "mobilenet"])
@pytest.mark.parametrize("system", ["x86", "xnnpack", "xnnpack per tensor"])
def test_every_layer_is_within_one_step(network: str, system: str) -> None:
    _check(network, system, seeds=(9,))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("network", ["resnet", "mobilenet"])
@pytest.mark.parametrize("system", ["x86", "xnnpack", "xnnpack per tensor"])
def test_more_images(network: str, system: str) -> None:
    _check(network, system, seeds=range(20, 26))


def _check(network: str, system: str, seeds: Iterable[int]) -> None:
    """Compare layer by layer, and print the figures of docs/tasks/pytorch.md."""
    graph = quantized(network, quantizer(system))
    if not any(target.startswith("quantized_decomposed.") for target in targets(graph)):
        pytest.skip(f"this torchao quantizes nothing for {system} with PyTorch {torch.__version__}")
    lowered = qconv.torch.lower(graph)
    print(qconv.torch.explain(lowered))
    left = [target for target in targets(lowered) if target.startswith(("aten.conv2d", "aten.linear", "aten.add."))]
    assert not left
    found = [each for seed in seeds for each in differences(graph, lowered, images(seed, 2))]
    for each in found:
        print(f"{each.layer}: {each.differing} of {each.count} differ, by {each.largest:g} at most")
        assert each.largest <= (1 if each.is_integer else 1e-5)
    counted = [(each.differing, each.count) for each in found if each.is_integer]
    differing, count = map(sum, zip(*counted, strict=True))
    print(f"{network}, {system}: {differing} of {count} integers are off by one")
    assert differing <= count / 5000


def test_a_lowered_network_is_compiled_and_exported_again() -> None:
    graph = quantized("mobilenet", quantizer("xnnpack"))
    x = images(9, 2)
    lowered = qconv.torch.lower(torch.export.export(graph, (x,)))
    with torch.no_grad():
        want = lowered(x)
        assert torch.equal(torch.compile(lowered, fullgraph=True, backend="aot_eager")(x), want)
        assert torch.equal(torch.export.export(lowered, (x,)).module()(x), want)
