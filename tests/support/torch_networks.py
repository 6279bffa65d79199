"""Small networks with seeded weights, quantized by torchao's PT2E, and a comparison of graphs, layer by layer."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from qconv.torch.pattern import REPLACES


class ConvBn(nn.Sequential):
    def __init__(self, c: int, k: int, size: int, stride: int = 1, groups: int = 1, act: Any = None) -> None:
        layers = [nn.Conv2d(c, k, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(k)]
        super().__init__(*layers, *([] if act is None else [act]))


class Residual(nn.Module):
    def __init__(self, c: int, k: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ConvBn(c, k, 3, stride, act=nn.ReLU()), ConvBn(k, k, 3))
        self.side = ConvBn(c, k, 1, stride) if (c, stride) != (k, 1) else nn.Identity()

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.side(x))


class Inverted(nn.Module):
    def __init__(self, c: int, k: int, stride: int) -> None:
        super().__init__()
        wide = 4 * c
        self.adds = (c, stride) == (k, 1)
        self.body = nn.Sequential(
            ConvBn(c, wide, 1, act=nn.ReLU6()), ConvBn(wide, wide, 3, stride, wide, nn.ReLU6()), ConvBn(wide, k, 1)
        )

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.adds else self.body(x)


def _classifier(*features: Any, width: int) -> Any:
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def network(name: str) -> Any:
    torch.manual_seed(7)
    if name == "resnet":
        stem = [ConvBn(3, 16, 3, 2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
        made = _classifier(*stem, Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 32, 1), width=32)
    else:
        stem = [ConvBn(3, 8, 3, 2, act=nn.ReLU6())]
        made = _classifier(*stem, Inverted(8, 8, 1), Inverted(8, 16, 2), Inverted(16, 16, 1), width=16)
    made.train()
    with torch.no_grad():
        made(images(0, 16))  # so that no batch norm is an identity
    return made.eval()


def images(seed: int, count: int) -> Any:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def quantized(name: str, quantizer: Any) -> Any:
    """Return the result of `convert_pt2e`."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    exported = torch.export.export(network(name), (images(1, 2),)).module()
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        for seed in range(2, 5):
            prepared(images(seed, 2))
    return convert_pt2e(prepared)


@dataclass(frozen=True)
class Difference:
    """The difference of one layer, given the graph's own inputs. For integers, in steps."""

    layer: str
    count: int
    differing: int
    largest: float
    is_integer: bool
    op: str


def differences(graph: Any, lowered: Any, *inputs: Any) -> list[Difference]:
    """Compare every node that replaces another, given that node's inputs."""
    values: dict[str, Any] = {}

    class Recorded(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            values[n.name] = super().run_node(n)
            return values[n.name]

    found: list[Difference] = []

    class Compared(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            y = super().run_node(n)
            if (name := n.meta.get(REPLACES)) is None:
                return y
            want = values[name]
            assert (y.shape, y.dtype) == (want.shape, want.dtype)
            away = (y.double() - want.double()).abs()
            differing, is_integer = int((away > 0).sum()), not y.dtype.is_floating_point
            found.append(Difference(name, y.numel(), differing, float(away.max()), is_integer, str(n.target)))
            return want

    with torch.no_grad():
        Recorded(copy.deepcopy(graph)).run(*inputs)
        Compared(lowered).run(*inputs)
    return found


def targets(module: Any) -> Iterator[str]:
    return (str(node.target) for node in module.graph.nodes if node.op == "call_function")
