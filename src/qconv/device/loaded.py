"""What belongs to one process: kernels that are loaded."""

from __future__ import annotations

from typing import NoReturn


class Loaded:
    def __reduce__(self) -> NoReturn:
        """For pickle and copy.deepcopy, whatever it is that they come from."""
        raise TypeError(
            "a loaded kernel cannot leave its process: pickle the problem, or its key, and look it up where it arrives"
        )
