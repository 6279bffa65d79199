"""quantize, dequantize and requantize as callers have them: a scale that is not finite and positive is refused, as
`conv2d` refuses it.

Those of `conversion_api` take any number. A network's own scales go there: ONNX Runtime and PyTorch compute with a
negative one, and a kernel gives their bits. What lies on a GPU is not looked at, for that would wait for it.
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
    """`scales`: the names of the arguments behind the first."""

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        for at, name in enumerate(scales, 1):
            array = as_array(name, args[at] if at < len(args) else named.get(name))
            # Whatever else is given in its place has an error of its own.
            if isinstance(array, np.ndarray) and str(array.dtype) in conversion_api.NUMBERS and array.size:
                check_positive(name, array)
        return function(*args, **named)

    return cast(Converts, called)


quantize = _checked(conversion_api.quantize, "scale")
dequantize = _checked(conversion_api.dequantize, "scale")
requantize = _checked(conversion_api.requantize, "x_scale", "y_scale")
