"""Reports on a network: where each layer runs and why, the bytes that cross between host and device, and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.value import Shape
from qconv.network.run.memory import Memory
from qconv.network.run.work import operations_of

HERE, ELSEWHERE = "qconv", "fallback"
# How a reason begins that follows from another layer's.
FOLLOWS = ("it only moves bytes", "the bytes that it reads", "the floats that it", "it brings floats into the blocks")
# Causes in a sentence of advice.
MOST_CAUSES = 3


@dataclass(frozen=True)
class LayerReport:
    """A row of the report. `bytes_in` and `bytes_out` cross between the two sides, and `operations` are the multiplies
    and adds; None if a shape depends on the inputs."""

    name: str
    op: str
    runs_on: str
    why: str
    bytes_in: int | None
    bytes_out: int | None
    operations: int | None = 0

    def __str__(self) -> str:
        return (
            f"{self.runs_on:<12} {self.op:<28} in {_shown(self.bytes_in):>10} out {_shown(self.bytes_out):>10}  "
            f"{self.name}: {self.why}"
        )


@dataclass(frozen=True)
class Explanation:
    """The layers in the order in which they run, the number of subgraphs elsewhere, and the memory of recordings, which
    exist from the second run on."""

    rows: tuple[LayerReport, ...]
    islands: int = 0
    memory: Memory = field(default_factory=Memory)

    @property
    def fallen_back(self) -> Mapping[str, int]:
        """Return the number of layers per op that run elsewhere."""
        return Counter(row.op for row in self.rows if row.runs_on != HERE)

    @property
    def crossing_bytes(self) -> int | None:
        """Return the bytes that cross per run, if every shape is known. Each crossing is counted on qconv's side."""
        total = 0
        for row in self.rows:
            if row.runs_on != HERE:
                continue
            if row.bytes_in is None or row.bytes_out is None:
                return None
            total += row.bytes_in + row.bytes_out
        return total

    @property
    def share(self) -> float | None:
        """Return the kernels' share of the multiplications, or None while a shape is unknown."""
        counts = [row.operations for row in self.rows]
        if None in counts:
            return None
        everything = sum(count or 0 for count in counts)
        here = sum(row.operations or 0 for row in self.rows if row.runs_on == HERE)
        return here / everything if everything else 1.0

    @property
    def causes(self) -> tuple[str, ...]:
        """Return why layers run elsewhere, the cause of the most multiplications first, with the ops and their
        counts."""
        found: dict[str, list[LayerReport]] = {}
        for row in self.rows:
            if row.runs_on != HERE and not row.why.startswith(FOLLOWS):
                found.setdefault(row.why, []).append(row)
        ordered = sorted(found.items(), key=lambda item: (-sum(row.operations or 0 for row in item[1]), -len(item[1])))
        return tuple(f"{_counted(row.op for row in rows)}: {why}" for why, rows in ordered)

    @property
    def advice(self) -> str:
        """Return a sentence about what runs elsewhere, with the weightiest causes, or "" if nothing does."""
        if not self.fallen_back:
            return ""
        share = "" if self.share is None else f", with {100 * (1 - self.share):.1f} % of the multiplications"
        causes = "; ".join(self.causes[:MOST_CAUSES]) or "see explain()"
        return (
            f"{sum(self.fallen_back.values())} of {len(self.rows)} layers{share}, run elsewhere, in {self.islands} "
            f"parts, and {_shown(self.crossing_bytes)} cross in each run: {causes}"
        )

    def __str__(self) -> str:
        here = sum(row.runs_on == HERE for row in self.rows)
        elsewhere = _counted(row.op for row in self.rows if row.runs_on != HERE) or "nothing"
        said = f"{here} of {len(self.rows)} layers run on qconv's kernels; elsewhere: {elsewhere}"
        crossing = f"bytes that cross: {_shown(self.crossing_bytes)}"
        share = "?" if self.share is None else f"{100 * self.share:.1f} %"
        work = f"multiplications on qconv's kernels: {share}; subgraphs elsewhere: {self.islands}"
        memory = [str(self.memory)] if self.memory.recordings else []
        return "\n".join([*map(str, self.rows), said, work, crossing, *memory])


@dataclass(frozen=True)
class LayerTime:
    """The time of a layer. For a served layer it includes its kernels and the conversion of its inputs' layout; for
    others, the transfer of its inputs to the host."""

    name: str
    op: str
    runs_on: str
    time_us: float


@dataclass(frozen=True)
class Profile:
    rows: tuple[LayerTime, ...]

    @property
    def total_us(self) -> float:
        return sum(row.time_us for row in self.rows)

    def __str__(self) -> str:
        lines = [f"{row.time_us:>10.1f} us  {row.runs_on:<12} {row.op}  {row.name}" for row in self.rows]
        return "\n".join([*lines, f"{self.total_us:>10.1f} us  in all"])


def explained(
    network: Network,
    order: Sequence[Layer],
    reasons: Mapping[str, tuple[str, str]],
    seen: Mapping[str, Tensor],
    operations: Mapping[str, int],
) -> Explanation:
    """Return the report. `reasons` maps a layer to where it runs and why; `seen` has the shapes of the last run, and
    `operations` those of the layers on kernels."""
    sides = {name: where for name, (where, _) in reasons.items()}

    def producer_side(name: str) -> str:
        made = network.producers.get(name)
        return ELSEWHERE if made is None else sides[made.name]

    def size(names: Sequence[str]) -> int | None:
        sizes = [(seen.get(name) or network.tensor(name)).bytes for name in names]
        return None if None in sizes else sum(each or 0 for each in sizes)

    def shape_of(name: str) -> Shape | None:
        constant = network.constants.get(name)
        return (seen.get(name) or network.tensor(name)).extents if constant is None else constant.shape

    rows = []
    for layer in order:
        where, why = reasons[layer.name]
        here = where == HERE
        moved = [name for name in layer.reads if name not in network.constants]
        came = [name for name in moved if (producer_side(name) == HERE) != here]
        goes = [name for name in layer.outputs if name and _leaves(network, name, sides, where)]
        counted = operations.get(layer.name)
        work = operations_of(layer, shape_of) if counted is None else counted
        rows.append(LayerReport(layer.name, layer.op, where, why, size(came), size(goes), work))
    return Explanation(tuple(rows))


def _leaves(network: Network, name: str, sides: Mapping[str, str], where: str) -> bool:
    readers = network.consumers.get(name, ())
    crosses = any((sides[reader.name] == HERE) != (where == HERE) for reader in readers)
    return crosses or (where == HERE and name in network.outputs)


def _counted(ops: Iterable[str]) -> str:
    return ", ".join(f"{op} {count}" for op, count in Counter(ops).items())


def _shown(count: int | None) -> str:
    return "?" if count is None else f"{count} B"
