"""The last axes of a map as one, so that vectors are wider than the last axis, such as the channels of a group."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from qconv.expression import Map
from qconv.expression.index import Axis, Index, joining
from qconv.expression.node import Node, replaced, with_indices


@lru_cache(maxsize=64)
def joined(problem: Map, vector: int) -> tuple[tuple[Axis, ...], Node]:
    """Return the axes and the expression of a map where as many of the last axes are one as a vector needs. If none
    of them is whole vectors, all axes are as they were."""
    axes, root = problem.axes, problem.root
    while len(axes) > 1 and axes[-1].extent % vector:
        outer, inner = axes[-2:]
        both = Axis(f"{outer.name}_{inner.name}", outer.extent * inner.extent)
        axes, root = (*axes[:-2], both), _substituted(root, joining(outer, inner, both))
    return (axes, root) if axes and axes[-1].extent % vector == 0 else (problem.axes, problem.root)


def _substituted(root: Node, instead: Callable[[Axis], Index]) -> Node:
    return replaced(root, lambda node: with_indices(node, lambda index: index.substituted(instead)))
