"""An option of the command line, as data: an op lists those that its problems are read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# extents: an integer, or several with commas between. switch: given or not. zero_point: True, or the integer that the
# data of `run` and `bench` shall have. texts: may be given several times.
Kind = Literal["integer", "extents", "text", "texts", "switch", "zero_point"]


@dataclass(frozen=True)
class Option:
    name: str
    says: str  # in the help; ops that share an option each say their part
    kind: Kind = "text"
    choices: tuple[str, ...] = ()  # a text that is none of these is refused
    metavar: str | None = None
    alone: str | None = None  # the text that the bare option stands for
    required: bool = False

    @property
    def spelled(self) -> str:
        return f"--{self.name.replace('_', '-')}"
