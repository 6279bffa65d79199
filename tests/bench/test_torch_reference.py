"""The second oracle agrees with the first one bit for bit, on all inputs of bench/models.py."""

from __future__ import annotations

import numpy as np
import pytest

from qconv import Conv2d, Quantization
from qconv.ops import registry

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[conformance]'")

PLAIN = Quantization()
DEPLOYED = Quantization(per_channel=True, bias="int32")
UNSIGNED = Quantization("uint8", "uint8", "uint8", True, True, True, True, "int32")
MIXED = Quantization("uint8", "int8", "int8", per_channel=True, x_zero_point=True, y_zero_point=True)

PROBLEMS = [
    Conv2d(2, 9, 7, 16, 24, 3, 3, pad=1, quantization=PLAIN),
    Conv2d(1, 12, 12, 3, 8, 7, 7, stride=2, pad=3, quantization=DEPLOYED),
    Conv2d(1, 11, 10, 24, 24, 3, 3, pad=(0, 1, 2, 1), stride=(2, 1), groups=24, quantization=UNSIGNED),
    Conv2d(3, 8, 8, 32, 16, 3, 2, dilation=(2, 1), pad=(2, 0, 2, 1), groups=4, quantization=MIXED),
    Conv2d(1, 1, 1, 320, 10, 1, 1, quantization=DEPLOYED),
    Conv2d(1, 6, 6, 8, 8, 1, 1, stride=2, quantization=UNSIGNED),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_it_gives_the_oracles_bits(problem: Conv2d) -> None:
    from torch_reference import output

    for seed in range(3):
        drawn = registry.draw(problem, seed)
        x, w = (torch.from_numpy(array) for array in drawn.arrays)
        got = output(problem, x, w, drawn.parameters).numpy()
        (want,) = registry.compute(problem, drawn)
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)
        assert len(np.unique(want)) > 8  # not all saturated


def test_it_rounds_ties_to_even_and_saturates() -> None:
    """A multiplier of 1/2 on chosen sums: every second one is a tie."""
    from torch_reference import output

    problem = Conv2d(1, 1, 601, 1, 1, 1, 1, quantization=Quantization(bias="int32"))
    x, w = torch.zeros(problem.x_shape, dtype=torch.int8), torch.ones(problem.w_shape, dtype=torch.int8)
    x[0, 0, :, 0] = torch.arange(-300, 301).clamp(-128, 127).to(torch.int8)
    parameters = {"x_scale": 0.5, "w_scale": 1.0, "y_scale": 1.0, "bias": np.array([1], np.int32)}
    got = output(problem, x, w, parameters).numpy().ravel()
    want = np.rint((np.arange(-300, 301).clip(-128, 127) + 1) / 2)
    assert np.array_equal(got, want)


def test_what_it_does_not_know_is_refused() -> None:
    from torch_reference import output

    for q in (Quantization(activation="relu"), Quantization(bias="float32"), Quantization.of("torch-fbgemm")):
        problem = Conv2d(1, 4, 4, 4, 4, 1, 1, quantization=q)
        with pytest.raises(ValueError, match="default mode"):
            output(problem, torch.zeros(problem.x_shape), torch.zeros(problem.w_shape), {})
