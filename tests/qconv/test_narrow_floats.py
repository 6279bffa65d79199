"""PyTorch's tensors of narrow floats, which its interface to NumPy does not know: their bits travel."""

from __future__ import annotations

import numpy as np
import pytest

import qconv
from qconv.dtypes import ELEMENT_TYPES
from qconv.narrow_floats import BITS

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("name", BITS)
def test_tensors_are_read_and_given(name: str) -> None:
    rng = np.random.default_rng(3)
    kind = ELEMENT_TYPES[name].numpy
    x, w = (rng.integers(-2, 3, shape).astype(kind) for shape in ((1, 5, 5, 16), (8, 3, 3, 16)))
    want = qconv.conv2d(x, w, pad=1)
    own = getattr(torch, name)
    tensors = [torch.tensor(array.astype(np.float32)).to(own) for array in (x, w)]
    got = qconv.conv2d(*tensors, pad=1)
    assert (want.dtype, got.dtype) == (kind, own)
    assert np.array_equal(got.float().numpy(), want.astype(np.float32))
