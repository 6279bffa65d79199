"""The op conv2d_pool: a convolution followed by a max pool, from the arguments of its schema."""

from __future__ import annotations

from typing import Any

from qconv.torch.arrays import empty
from qconv.torch.convolution import convolve_into, images_shape
from qconv.torch.elementwise import fake_pool
from qconv.torch.schema import Given

# Maps the arguments of max_pool2d to those of the pool.
OF_POOL = {"kernel_size": "window", "stride": "window_stride", "padding": "window_padding", "ceil_mode": "ceil_mode"}
# Arguments of a convolution that this op lacks.
_WITHOUT = {"residual": None}


def fake_pooled(given: Given) -> Any:
    between = empty(*images_shape({**given, **_WITHOUT}), given["x"])
    return fake_pool({"x": between, **{theirs: given[ours] for theirs, ours in OF_POOL.items()}})


def convolve_and_pool(given: Given) -> Any:
    return convolve_into(fake_pooled(given), {**given, **_WITHOUT})
