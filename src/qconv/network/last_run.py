"""The last run of a network: the kernels and the shapes that its layers had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from qconv.network.arrange import Arrangement, Key
from qconv.network.graph import Layer, Tensor
from qconv.network.served import Prepared


@dataclass(frozen=True)
class Refused:
    """A layer for inputs of certain shapes that no kernel serves: it runs elsewhere."""

    why: str


@dataclass(frozen=True)
class LastRun:
    """`chosen` is by the keys of layers, `seen` by the names of tensors, `arranged` by the names of regions."""

    chosen: dict[Key, Prepared | Refused] = field(default_factory=dict)
    seen: dict[str, Tensor] = field(default_factory=dict)
    arranged: dict[str, Arrangement] = field(default_factory=dict)

    def of(self, layers: Iterable[Layer], steps: Iterable[Layer]) -> LastRun:
        """The part of it that tells of these layers, and of the steps that they were run in."""
        steps = list(steps)
        names = {name for layer in steps for name in (*layer.reads, *layer.outputs)}
        return LastRun(
            {layer.key: self.chosen[layer.key] for layer in steps},
            {name: self.seen[name] for name in names if name in self.seen},
            {layer.name: self.arranged[layer.name] for layer in layers if layer.name in self.arranged},
        )

    def again(self, part: LastRun) -> None:
        """These layers have run as they did then."""
        self.chosen.update(part.chosen)
        self.seen.update(part.seen)
        self.arranged.update(part.arranged)
