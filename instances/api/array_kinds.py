"""Whose arrays callers bring: NumPy's, CuPy's, PyTorch's, anybody's. What a function gives is of the kind that it took.

A decorator says so to type checkers, and does it: kernels write arrays of their device (NumPy's or CuPy's), which
another library then takes over in the same memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray


class SupportsDLPack(Protocol):
    @property
    def __dlpack__(self) -> Callable[..., Any]: ...


class SupportsCudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


HostArray: TypeAlias = NDArray[Any]
AnyArray: TypeAlias = SupportsDLPack | SupportsCudaArray
# A scale, a zero point or a bias: one number, or one for each channel, on the host or where the kernel runs.
Numbers: TypeAlias = float | np.generic | Sequence[float] | SupportsDLPack | SupportsCudaArray
# One number for both directions (for all four sides), or each by itself.
Extents: TypeAlias = int | Sequence[int]

Array = TypeVar("Array", bound=SupportsDLPack | SupportsCudaArray)
P = ParamSpec("P")


class NoArray(Protocol):
    """Nothing is of this type. Where a checker does not know an argument's type, as CuPy's arrays have none, this third
    possibility keeps it from saying that the result is NumPy's."""

    def _is_no_array(self) -> None: ...


# NumPy's arrays carry their element type, which a kernel changes: they have a line of their own.
class GivesOne(Protocol[P]):
    @overload
    def __call__(self, x: HostArray, /, *args: P.args, **named: P.kwargs) -> HostArray: ...
    @overload
    def __call__(self, x: Array, /, *args: P.args, **named: P.kwargs) -> Array: ...
    @overload
    def __call__(self, x: NoArray, /, *args: P.args, **named: P.kwargs) -> NoArray: ...


class GivesTwo(Protocol[P]):
    @overload
    def __call__(self, x: HostArray, /, *args: P.args, **named: P.kwargs) -> tuple[HostArray, HostArray]: ...
    @overload
    def __call__(self, x: Array, /, *args: P.args, **named: P.kwargs) -> tuple[Array, Array]: ...
    @overload
    def __call__(self, x: NoArray, /, *args: P.args, **named: P.kwargs) -> NoArray: ...


class GivesThree(Protocol[P]):
    @overload
    def __call__(self, x: HostArray, /, *args: P.args, **named: P.kwargs) -> tuple[HostArray, HostArray, HostArray]: ...
    @overload
    def __call__(self, x: Array, /, *args: P.args, **named: P.kwargs) -> tuple[Array, Array, Array]: ...
    @overload
    def __call__(self, x: NoArray, /, *args: P.args, **named: P.kwargs) -> NoArray: ...


class TakesSeveral(Protocol[P]):
    """One behind the other: also the element type is that of what was given."""

    def __call__(self, x: Sequence[Array], /, *args: P.args, **named: P.kwargs) -> Array: ...


def gives_one(function: Callable[Concatenate[Any, P], Any]) -> GivesOne[P]:
    """The result is of the kind of the first argument."""
    kept: GivesOne[P] = _kept(function, lambda x: x)
    return kept


def gives_two(function: Callable[Concatenate[Any, P], Any]) -> GivesTwo[P]:
    kept: GivesTwo[P] = _kept(function, lambda x: x)
    return kept


def gives_three(function: Callable[Concatenate[Any, P], Any]) -> GivesThree[P]:
    kept: GivesThree[P] = _kept(function, lambda x: x)
    return kept


def takes_several(function: Callable[Concatenate[Any, P], Any]) -> TakesSeveral[P]:
    """The result is of the kind of the first of them."""
    kept: TakesSeveral[P] = _kept(function, lambda tensors: tensors[0])
    return kept


def _kept(function: Callable[..., Any], first: Callable[[Any], Any]) -> Any:
    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        made = function(*args, **named)
        if named.get("out") is not None:
            return made  # the caller's own
        like = first(args[0] if args else next(iter(named.values())))
        if isinstance(made, tuple):
            return tuple(as_kind_of(like, array) for array in made)
        return as_kind_of(like, made)

    return called


def as_kind_of(like: Any, array: Any) -> Any:
    """The array as one of the library that `like` is of, in the same memory. It stays as it is where that library says
    nowhere how it takes one over."""
    if isinstance(array, type(like)) or isinstance(like, np.ndarray):
        return array
    library = _library_of(type(like))
    if library is None:
        return array
    if str(array.dtype) == "bfloat16":  # which NumPy's DLPack does not know
        return library.from_dlpack(array.view("int16")).view(library.bfloat16)
    return library.from_dlpack(array)


def _library_of(kind: type) -> Any:
    """The module that has the `from_dlpack` of such arrays."""
    names = kind.__module__.split(".")
    # jax.Array is of the module jaxlib: it is jax.numpy that takes arrays over.
    for name in (*{"jaxlib": ["jax.numpy"]}.get(names[0], []), names[0]):
        library = sys.modules.get(name)
        if library is not None and hasattr(library, "from_dlpack"):
            return library
    return None
