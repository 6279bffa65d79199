"""The values that were used last, up to a number of them."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A mapping that drops what was used longest ago, once it has more than `most` values. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Key, Value] = {}  # the one used last is last
        self._alone = Lock()

    def get(self, key: Key) -> Value | None:
        with self._alone:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value
            return value

    def keep(self, key: Key, value: Value) -> None:
        with self._alone:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]

    def take(self, key: Key) -> Value | None:
        """Return a value and remove it."""
        with self._alone:
            return self._values.pop(key, None)

    def clear(self) -> None:
        with self._alone:
            self._values.clear()

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)
