"""Ops that move elements move the same elements as in PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_functions import EXPRESSION, Y, as_one_expression, dq, integers, lowered, q, targets  # noqa: E402

import qconv.torch  # noqa: E402

X = integers(2, 8, 6, 4)
MOVES = {
    "reshape": lambda x: x.reshape(2, 4, -1).unsqueeze(1),
    "permute": lambda x: x.permute(0, 2, -1, 1),
    "transpose": lambda x: x.transpose(1, -1).flatten(2),
    "expand": lambda x: x[:, :1].expand(2, 3, 6, 4),
    "repeat": lambda x: x.repeat(2, 1, 1, 3),
    "slice": lambda x: x[:, 1:7:2, -3:, :100],
    "select": lambda x: x[:, -2, 1],
    "flip": lambda x: x.flip(1, 3),
    "cat": lambda x: torch.cat([x, x[:, :3] * 2, x], 1),
    "stack": lambda x: torch.stack([x, x.flip(0)], 2),
    "chunk": lambda x: x.chunk(3, 1)[2] + x.chunk(3, 1)[0][:, :2],
    "split": lambda x: x.split([1, 5, 2], 1)[1] * x.split(5, 1)[0],
    "unbind": lambda x: x.unbind(3)[2],
    "pad": lambda x: functional.pad(x, (1, 2, 0, 3), value=0.5),
    "pad, reflected": lambda x: functional.pad(x, (1, 2, 2, 3), mode="reflect"),
    "pad, repeated": lambda x: functional.pad(x, (1, 2, 2, 3), mode="replicate"),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: functional.channel_shuffle(x, 4),
    "shuffle": lambda x: x.view(2, 2, 4, 6, 4).transpose(1, 2).contiguous().view(2, 8, 6, 4),
    "matrix": lambda x: x[0, 0].t(),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    assert as_one_expression(lambda m, x: q(MOVES[name](dq(x))), X).largest <= 1


def test_integers_are_moved_as_they_are() -> None:
    found = as_one_expression(lambda m, x: q(torch.cat([dq(x), dq(x.flip(1))], 1), (0.02, 3, *Y[2:])), X)
    assert found.differing == 0


def test_views_that_nobody_computes_with_cost_nothing() -> None:
    module, found = lowered(lambda m, x: x.transpose(1, 2)[:, :3].flatten(1), X)
    assert EXPRESSION not in list(targets(module))
    assert not found
    assert qconv.torch.explain(module) == ""
