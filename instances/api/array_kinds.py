"""Array libraries of callers (NumPy, CuPy, PyTorch and others): a function returns an array of the same library as its
first argument.

Kernels write arrays of their device (NumPy's or CuPy's). The decorators here hand such an array over to the caller's
library in the same memory, and give the function the matching type for type checkers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from qconv.narrow_floats import of_library


class SupportsDLPack(Protocol):
    @property
    def __dlpack__(self) -> Callable[..., Any]: ...


class SupportsCudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


HostArray: TypeAlias = NDArray[Any]
AnyArray: TypeAlias = SupportsDLPack | SupportsCudaArray
# A scale, a zero point or a bias: one number, or one per channel, on the host or on the kernel's device.
Numbers: TypeAlias = float | np.generic | Sequence[float] | SupportsDLPack | SupportsCudaArray
# One number for both directions (or for all four sides), or one for each.
Extents: TypeAlias = int | Sequence[int]

Array = TypeVar("Array", bound=SupportsDLPack | SupportsCudaArray)
P = ParamSpec("P")


class NoArray(Protocol):
    """A type without instances. Where a checker does not know an argument's type, as for CuPy's arrays, this third
    overload keeps it from concluding that the result is NumPy's."""

    def _is_no_array(self) -> None: ...


# NumPy's array type includes the element type, which a kernel changes, so NumPy has an overload of its own.
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
    """The type of a function of several arrays. Its result also has the element type of the arrays."""

    def __call__(self, x: Sequence[Array], /, *args: P.args, **named: P.kwargs) -> Array: ...


def gives_one(function: Callable[Concatenate[Any, P], Any]) -> GivesOne[P]:
    """Convert the result to the library of the first argument."""
    kept: GivesOne[P] = _kept(function, lambda x: x)
    return kept


def gives_two(function: Callable[Concatenate[Any, P], Any]) -> GivesTwo[P]:
    kept: GivesTwo[P] = _kept(function, lambda x: x)
    return kept


def gives_three(function: Callable[Concatenate[Any, P], Any]) -> GivesThree[P]:
    kept: GivesThree[P] = _kept(function, lambda x: x)
    return kept


def takes_several(function: Callable[Concatenate[Any, P], Any]) -> TakesSeveral[P]:
    """Convert the result to the library of the first array in the list."""
    kept: TakesSeveral[P] = _kept(function, lambda tensors: tensors[0])
    return kept


def _kept(function: Callable[..., Any], first: Callable[[Any], Any]) -> Any:
    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        made = function(*args, **named)
        if named.get("out") is not None:
            return made  # the caller's own array
        like = first(args[0] if args else next(iter(named.values())))
        if isinstance(made, tuple):
            return tuple(as_kind_of(like, array) for array in made)
        return as_kind_of(like, made)

    return called


def as_kind_of(like: Any, array: Any, name: str | None = None) -> Any:
    """Hand `array` over to the library of `like`, in the same memory. Return it unchanged where that library has no
    `from_dlpack`. `name` is the element type where the array holds its bits, as CuPy's does of 8-bit floats."""
    if array is None or isinstance(array, type(like)) or isinstance(like, np.ndarray):
        return array
    library = _library_of(type(like))
    if library is None:
        return array
    return of_library(library, array, name)


def _library_of(kind: type) -> Any:
    """Return the module with the `from_dlpack` for arrays of this type."""
    names = kind.__module__.split(".")
    # The type of jax.Array is defined in jaxlib, but `from_dlpack` is in jax.numpy.
    for name in (*{"jaxlib": ["jax.numpy"]}.get(names[0], []), names[0]):
        library = sys.modules.get(name)
        if library is not None and hasattr(library, "from_dlpack"):
            return library
    return None
