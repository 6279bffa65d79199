"""quantize, dequantize and requantize for users. They reject scales that are not finite and positive, as `conv2d` does.

The functions of `conversion_api` accept any number, for the scales of networks: ONNX Runtime and PyTorch compute with a
negative scale, and a kernel gives the same bits. Scales on a GPU are not checked, because reading them would
synchronize.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from qconv.arithmetic.parameter import check_positive
from qconv.instances.api import conversion as conversion_api
from qconv.instances.load.arguments import as_array

Converts = TypeVar("Converts", bound=Callable[..., Any])


def _checked(function: Converts, *scales: str) -> Converts:
    """Check the named scale arguments, which follow the first argument in this order."""

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        for at, name in enumerate(scales, 1):
            array = as_array(name, args[at] if at < len(args) else named.get(name))
            # Anything else has an error of its own.
            if isinstance(array, np.ndarray) and str(array.dtype) in conversion_api.NUMBERS and array.size:
                check_positive(name, array)
        return function(*args, **named)

    return cast(Converts, called)


quantize = _checked(conversion_api.quantize, "scale")
dequantize = _checked(conversion_api.dequantize, "scale")
requantize = _checked(conversion_api.requantize, "x_scale", "y_scale")
