"""A convolution followed by a max pool, as one problem, like the first layers of many networks. The convolution's
output is requantized as it specifies and need not exist in memory.

The convolution (`first`) and the pool (`rest`) are problems of their own as well, for the case that no kernel computes
both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from qconv.arithmetic.quantization import Quantization
from qconv.op import Problem, Tensor, quoted, several
from qconv.problem.chain import Chain
from qconv.problem.convolution import FLAGS, Conv2d, read_conv2d, read_several
from qconv.tensor_ops.pooling import MaxPool
from qconv.tensor_ops.problem import BYTES

# The fields of a pool that its key omits where they have the default.
_MOVES = ("window_stride", "window_pad")
KEY_FLAGS = (*FLAGS, "ceil_mode")


@dataclass(frozen=True, eq=False)
class PooledConv2d(Conv2d):
    """The maximum of each window of a convolution's output. `window` and `window_stride` are (vertical, horizontal),
    `window_pad` is (top, left, bottom, right). `oh` and `ow` are those of the convolution."""

    op: ClassVar[str] = "conv2d_pool"
    window: Any = (2, 2)
    window_stride: Any = (1, 1)
    window_pad: Any = (0, 0, 0, 0)
    ceil_mode: bool = False

    if TYPE_CHECKING:
        # One number may stand for several, as in Conv2d.
        def __init__(
            self,
            n: int,
            h: int,
            w: int,
            c: int,
            k: int,
            r: int,
            s: int,
            stride: int | tuple[int, int] = 1,
            dilation: int | tuple[int, int] = 1,
            pad: int | tuple[int, int, int, int] = 0,
            groups: int = 1,
            layout: str = "nhwc",
            quantization: Quantization = ...,
            window: int | tuple[int, int] = 2,
            window_stride: int | tuple[int, int] = 1,
            window_pad: int | tuple[int, int, int, int] = 0,
            ceil_mode: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        q = self.quantization
        if self.layout != "nhwc":
            raise ValueError(f"layout={self.layout}: a convolution and the pool behind it take and give nhwc")
        if self.is_shuffled:
            raise ValueError(f"{self.key}: a pool follows an output as it lies, without pixel_shuffle and crop")
        if self.frames is not None:
            raise ValueError(f"{self.key}: a convolution of frames has no pool behind it; run the two by themselves")
        if q.out_type not in BYTES:
            raise ValueError(f"out_type={q.out_type}: a pool behind a convolution takes {' or '.join(BYTES)}")
        if q.residual != "none":
            raise ValueError(f"residual={q.residual}: nothing is added in front of the pool; run the two by themselves")
        if q.constant != "none":
            raise ValueError(f"constant={q.constant}: nothing is added in front of the pool; run the two by themselves")
        for name, length, least in (("window", 2, 1), ("window_stride", 2, 1), ("window_pad", 4, 0)):
            object.__setattr__(self, name, several(name, getattr(self, name), length, least))
        try:
            _ = self.rest
        except ValueError as error:
            raise ValueError(f"of the pool: {error}") from None
        self._name(":".join([self.op, *self.key.split(":")[1:], *self._pool_parts]))

    @property
    def _pool_parts(self) -> list[str]:
        """Return the pool's fields in a key: the window always, everything else where it differs from the default."""
        own = {entry.name: entry.default for entry in fields(self)}
        parts = [f"window={','.join(map(str, self.window))}"]
        for name in _MOVES:
            if (values := getattr(self, name)) != own[name]:
                parts.append(f"{name}={','.join(map(str, values))}")
        return parts + ["ceil_mode"] * self.ceil_mode

    @classmethod
    def behind(cls, convolution: Conv2d, pool: MaxPool) -> Self:
        """Return a convolution and the pool behind it as one problem. Reject a pool with a dilation."""
        if pool.dilation != (1, 1):
            raise ValueError(f"dilation={pool.dilation} of the pool behind a convolution must be 1,1")
        if convolution.outputs[0] != Tensor("y", pool.inputs[0].shape, pool.x_type):
            raise ValueError(f"the pool takes {pool.inputs[0]}, but the convolution gives {convolution.outputs[0]}")
        window = {"window": (pool.r, pool.s), "window_stride": pool.stride, "window_pad": pool.pad}
        return cls.over(convolution, **window, ceil_mode=pool.ceil_mode)

    @classmethod
    def over(cls, convolution: Conv2d, **window: Any) -> Self:
        """Return the problem of a convolution followed by a pool with these windows."""
        return cls(**_fields_of(convolution), **window)

    @cached_property
    def first(self) -> Conv2d:
        """The convolution, as a problem of its own."""
        return Conv2d(**_fields_of(self))

    @cached_property
    def rest(self) -> MaxPool:
        """The pool, as a problem of its own."""
        shape = (self.n, self.oh, self.ow, self.k)
        window = {"stride": self.window_stride, "pad": self.window_pad, "ceil_mode": self.ceil_mode}
        return MaxPool.of(shape, self.window, x_type=self.quantization.out_type, **window)

    @property
    def parts(self) -> tuple[Problem, ...]:
        return (self.first, self.rest)

    @property
    def y_shape(self) -> tuple[int, ...]:
        return (self.n, self.rest.oh, self.rest.ow, self.k)

    @cached_property
    def io_bytes(self) -> int:
        between = self.pixels * self.k
        return self.first.io_bytes + self.rest.io_bytes - 2 * between

    @property
    def kinds(self) -> tuple[object, ...]:
        return (*super().kinds, self.window, self.window_stride)

    def of_layer(self, layer: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of the `first` layer, which are all: the pool has none."""
        return parameters

    def of_rest(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {}


def read_pooled(key: str, given: dict[str, str | bool]) -> PooledConv2d:
    """Return the problem of a key's fields."""
    pool: dict[str, Any] = {}
    for name in ("window", *_MOVES):
        if name in given:
            pool[name] = read_several(name, given.pop(name))
        elif name == "window":
            raise ValueError(f"the key {quoted(key)} has no window, which the pool needs")
    pool["ceil_mode"] = bool(given.pop("ceil_mode", False))
    return PooledConv2d.over(read_conv2d(key, given, ("window", *_MOVES, "ceil_mode")), **pool)


def _fields_of(convolution: Conv2d) -> dict[str, Any]:
    return {entry.name: getattr(convolution, entry.name) for entry in fields(Conv2d) if entry.init}


InTurn = Chain | PooledConv2d
