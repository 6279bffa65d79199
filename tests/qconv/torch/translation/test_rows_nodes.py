"""Means, softmax and normalizations of rows are those of PyTorch, up to one step of the output."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_functions import as_one_expression, dq, integers, lowered, q, targets  # noqa: E402

X = integers(2, 8, 6, 4)
ROWS = {
    "mean": lambda m, x: x.mean((2, 3)),
    "mean of all": lambda m, x: x.mean(),
    "sum": lambda m, x: x.sum(-1, keepdim=True) * 0.25,
    "amax": lambda m, x: x.amax((1, 3)) - x.amin((1, 3)),
    "norm": lambda m, x: torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True),
    "norm of magnitudes": lambda m, x: torch.linalg.vector_norm(x, 1, -1) * 0.25,
    "prod": lambda m, x: (x * 0.5 + 1).prod(1),
    "prod of all": lambda m, x: (x * 0.01 + 1).prod(),
    "logsumexp": lambda m, x: torch.logsumexp(x, (1, 2)),
    "softmax": lambda m, x: functional.softmax(x, -1) * 4,
    "softmax of channels": lambda m, x: functional.softmax(x, 1) * 4,
    "log_softmax": lambda m, x: functional.log_softmax(x, 1),
    "layer_norm": lambda m, x: functional.layer_norm(x.permute(0, 2, 3, 1), (8,), m.w, m.b, 1e-6),
    "layer_norm, plain": lambda m, x: functional.layer_norm(x, (6, 4)),
    "group_norm": lambda m, x: functional.group_norm(x, 2, m.w, m.b),
    "group_norm, plain": lambda m, x: functional.group_norm(x, 4),
    "instance_norm": lambda m, x: functional.instance_norm(x, weight=m.w, bias=m.b),
    "batch_norm": lambda m, x: functional.batch_norm(x, m.b, m.w, m.w, m.b, eps=0.5),
    "rms_norm": lambda m, x: functional.rms_norm(x, (4,), eps=1e-5),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    found = as_one_expression(lambda m, x: q(ROWS[name](m, dq(x))), X)
    assert found.largest <= 1
    assert found.differing <= max(1, found.count / 20)


def test_the_largest_of_an_axis_is_the_first() -> None:
    module, (found,) = lowered(lambda m, x: dq(x).clamp(-1, 1).argmax(1), X)
    assert list(targets(module)) == ["qconv.expression.default"]
    assert found.differing == 0


def test_the_largest_of_all_stays() -> None:
    module, _ = lowered(lambda m, x: dq(x).argmax(), X)
    assert "aten.argmax.default" in list(targets(module))


def test_two_batch_norms_have_numbers_of_their_own() -> None:
    """PyTorch calls the second one batch_norm_1, as if it were a number of the first."""

    def body(m: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        first = functional.batch_norm(dq(x), m.b, m.w, m.w, m.b)
        return q(first) + q(functional.batch_norm(first.mean((2, 3)), m.b, m.w))[..., None, None]

    module, (found,) = lowered(body, X)
    assert set(targets(module)) == {"qconv.expression.default"}
    assert found.largest <= 2


def test_a_batch_norm_that_trains_stays() -> None:
    module, _ = lowered(lambda m, x: q(functional.batch_norm(dq(x), None, None, training=True)), X)
    assert "aten.batch_norm.default" in list(targets(module))


def test_the_largest_magnitude_stays() -> None:
    module, _ = lowered(lambda m, x: q(torch.linalg.vector_norm(dq(x), float("inf"), 1)), X)
    assert "aten.linalg_vector_norm.default" in list(targets(module))
