"""Another library's array: NumPy's memory, with nothing of NumPy's but the protocol."""

from __future__ import annotations

from typing import Any


class Foreign:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **given: Any) -> Any:
        return self.array.__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()
