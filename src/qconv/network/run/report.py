"""Reports on a network: where each layer runs and why, the bytes that cross between host and device, and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qconv.instances.load.needs import Needs
from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.served import Reason
from qconv.network.graph.value import Shape
from qconv.network.run.causes import Cause, causes_of, counted
from qconv.network.run.memory import Memory
from qconv.network.run.work import operations_of
from qconv.tensor_ops.problem import BYTES

HERE, ELSEWHERE = "qconv", "fallback"
# Causes in a sentence of advice.
MOST_CAUSES = 3
# The share of the multiplications that a quantized network may leave in floats before its user is told.
MOST_IN_FLOATS = 0.05
IN_FLOATS = Reason(
    "its products are of floats",
    cure="they are of integers where its inputs are dequantized and its output is quantized, as by quantize_static",
)


@dataclass(frozen=True)
class LayerReport:
    """A row of the report. `bytes_in` and `bytes_out` cross between the two sides, and `operations` are the multiplies
    and adds; None if a shape depends on the inputs. A layer elsewhere may be there because of the one that it
    `follows`. `floats` is the type of the floats that it multiplies, "" where there are none. `may_differ`: its bits
    may be others than with `bits="onnxruntime"`. The time of a subgraph elsewhere is measured as a whole, and stands at
    its first layer."""

    name: str
    op: str
    runs_on: str
    why: str
    bytes_in: int | None
    bytes_out: int | None
    operations: int | None = 0
    follows: str | None = None
    cure: str | None = None
    floats: str = ""
    may_differ: bool = False
    needs: Needs = field(default_factory=Needs)
    measured_us: float | None = None

    def __str__(self) -> str:
        return (
            f"{self.runs_on:<12} {self.op:<28} in {_shown(self.bytes_in):>10} out {_shown(self.bytes_out):>10} "
            f"{self._times} {self.name}: {self.why}"
        )

    @property
    def _times(self) -> str:
        predicted = "unknown" if self.needs.predicted_us is None else f"{self.needs.predicted_us:.2f} us"
        measured = "" if self.measured_us is None else f" measured {self.measured_us:.2f} us"
        return f"predicted {predicted:>10}{measured} "

    def as_dict(self) -> dict[str, Any]:
        return {**{name: value for name, value in vars(self).items() if name != "needs"}, **vars(self.needs)}


@dataclass(frozen=True)
class Explanation:
    """The layers in the order in which they run, the number of subgraphs elsewhere, and the memory of recordings, which
    exist from the second run on."""

    rows: tuple[LayerReport, ...]
    islands: int = 0
    memory: Memory = field(default_factory=Memory)

    def __repr__(self) -> str:
        here = sum(row.runs_on == HERE for row in self.rows)
        return f"<Explanation: {here} of {len(self.rows)} layers on kernels; print it for the report>"

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
        return self._share_of(lambda row: row.runs_on == HERE)

    @property
    def float_share(self) -> float | None:
        """Return the share of the multiplications that are of floats, on kernels or elsewhere."""
        return self._share_of(lambda row: bool(row.floats))

    def _share_of(self, counts: Callable[[LayerReport], bool]) -> float | None:
        if any(row.operations is None for row in self.rows):
            return None
        everything = sum(row.operations or 0 for row in self.rows)
        some = sum(row.operations or 0 for row in self.rows if counts(row))
        return some / everything if everything else float(counts(NOTHING))

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Return why layers run elsewhere, the cause of the most multiplications first, then of the most bytes."""
        return causes_of([row for row in self.rows if row.runs_on != HERE])

    @property
    def float_causes(self) -> tuple[Cause, ...]:
        """Return why layers on kernels multiply floats, in fp32."""
        here = (row for row in self.rows if row.runs_on == HERE and row.floats == "float32" and row.operations)
        return causes_of([replace(row, why=str(IN_FLOATS), cure=IN_FLOATS.cure) for row in here])

    @property
    def predicted_us(self) -> float:
        """Return the sum of all predicted times; `unpredicted` counts the layers on kernels that it lacks."""
        return sum(row.needs.predicted_us or 0.0 for row in self.rows)

    @property
    def unpredicted(self) -> int:
        return sum(row.runs_on == HERE and row.needs.predicted_us is None for row in self.rows)

    @property
    def measured_us(self) -> float | None:
        """Return the sum of all measured times, or None where none was measured."""
        known = [row.measured_us for row in self.rows if row.measured_us is not None]
        return sum(known) if known else None

    def with_times(self, profile: Profile) -> Explanation:
        """Return the report with the measured times of a profile."""
        times = {one.layers[0]: one.time_us for one in profile.rows if one.layers}
        rows = (replace(row, measured_us=times.get(row.name)) for row in self.rows)
        return replace(self, rows=tuple(rows))

    @property
    def advice(self) -> str:
        """Return sentences about what runs elsewhere, and about more than a twentieth of the multiplications in floats,
        with the weightiest causes and their cures; or "" if there is nothing to say."""
        said = []
        if self.fallen_back:
            share = "" if self.share is None else f", with {100 * (1 - self.share):.1f} % of the multiplications"
            said.append(
                f"{sum(self.fallen_back.values())} of {len(self.rows)} layers{share}, run elsewhere, in {self.islands} "
                f"parts, and {_shown(self.crossing_bytes)} cross in each run: {_listed(self.causes)}"
            )
        in_fp32 = self._share_of(lambda row: row.floats == "float32") or 0.0
        if in_fp32 > MOST_IN_FLOATS and (causes := self.float_causes):
            said.append(f"{_percent(in_fp32)} of the multiplications are in floats: {_listed(causes)}")
        return ". ".join(said)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as data that JSON can have."""
        return {
            "layers": [row.as_dict() for row in self.rows],
            "share": self.share,
            "float_share": self.float_share,
            "islands": self.islands,
            "crossing_bytes": self.crossing_bytes,
            "causes": [cause.as_dict() for cause in self.causes],
            "float_causes": [cause.as_dict() for cause in self.float_causes],
            "weight_bytes": self._total("weight_bytes"),
            "workspace_bytes": self._total("workspace_bytes"),
            "memory": vars(self.memory),
            "predicted_us": self.predicted_us,
            "unpredicted": self.unpredicted,
            "measured_us": self.measured_us,
            "advice": self.advice,
        }

    def _total(self, name: str) -> int:
        return sum(getattr(row.needs, name) for row in self.rows)

    def __str__(self) -> str:
        here = sum(row.runs_on == HERE for row in self.rows)
        elsewhere = counted(self.fallen_back) or "nothing"
        said = f"{here} of {len(self.rows)} layers run on qconv's kernels; elsewhere: {elsewhere}"
        work = f"multiplications on qconv's kernels: {_percent(self.share)}; subgraphs elsewhere: {self.islands}"
        floats = f"multiplications in floats: {_percent(self.float_share)}"
        crossing = f"bytes that cross: {_shown(self.crossing_bytes)}"
        causes = [f"cause: {cause}" for cause in self.causes]
        if self.advice and not self.fallen_back:
            causes = [f"cause of floats: {cause}" for cause in self.float_causes]
        weights, workspaces = self._total("weight_bytes"), self._total("workspace_bytes")
        held = f"weights and constants in {weights} B; workspaces in {workspaces} B"
        memory = [str(self.memory)] if self.memory.recordings else []
        lines = [*map(str, self.rows), said, work, floats, crossing, *causes, self._time, held, *memory]
        return "\n".join(lines)

    @property
    def _time(self) -> str:
        here = sum(row.runs_on == HERE for row in self.rows)
        if here and self.unpredicted == here:
            return "predicted times are unknown" + self._measured
        missing = f", without {self.unpredicted} layers whose time is unknown" if self.unpredicted else ""
        return f"predicted {self.predicted_us:.2f} us{missing}{self._measured}"

    @property
    def _measured(self) -> str:
        return "" if self.measured_us is None else f"; measured {self.measured_us:.2f} us, each layer by itself"


# A layer that stands for a network without multiplications: none of them are elsewhere, and none of floats.
NOTHING = LayerReport("", "", HERE, "", 0, 0)


@dataclass(frozen=True)
class LayerTime:
    """The time of a layer. For a served layer it includes its kernels and the conversion of its inputs' layout; for
    others, the transfer of its inputs to the host. `layers` are the names of all that ran in this time."""

    name: str
    op: str
    runs_on: str
    time_us: float
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    rows: tuple[LayerTime, ...]

    def __repr__(self) -> str:
        return f"<Profile: {len(self.rows)} times, {self.total_us:.1f} us in all; print it for each>"

    @property
    def total_us(self) -> float:
        return sum(row.time_us for row in self.rows)

    def __str__(self) -> str:
        lines = [f"{row.time_us:>10.1f} us  {row.runs_on:<12} {row.op}  {row.name}" for row in self.rows]
        return "\n".join([*lines, f"{self.total_us:>10.1f} us  in all"])


@dataclass(frozen=True)
class Placed:
    """The place where a layer runs and why; of one on kernels, the multiplies and adds and the needs of its kernels."""

    runs_on: str
    why: Reason
    operations: int | None = None
    floats: str = ""
    needs: Needs = field(default_factory=Needs)


def explained(
    network: Network, order: Sequence[Layer], places: Mapping[str, Placed], seen: Mapping[str, Tensor]
) -> Explanation:
    """Return the report. `places` are by the names of layers; `seen` has the shapes of the last run."""
    sides = {name: place.runs_on for name, place in places.items()}

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
        place = places[layer.name]
        here = place.runs_on == HERE
        moved = [name for name in layer.reads if name not in network.constants]
        came = [name for name in moved if (producer_side(name) == HERE) != here]
        goes = [name for name in layer.outputs if name and _leaves(network, name, sides, place.runs_on)]
        work = operations_of(layer, shape_of) if place.operations is None else place.operations
        rows.append(
            LayerReport(
                layer.name, layer.op, place.runs_on, str(place.why), size(came), size(goes), work, place.why.follows,
                place.why.cure, place.floats if here else _floats_of(network, layer),
                here and not (layer.is_exact and not layer.is_expression), place.needs,
            )
        )  # fmt: skip
    return Explanation(tuple(rows))


def _floats_of(network: Network, layer: Layer) -> str:
    """Return the type of the floats that a layer elsewhere multiplies, which reads no bytes beside them."""
    types = {network.tensor(name).dtype for name in layer.inputs if name}
    return "float32" if "float32" in types and types.isdisjoint(BYTES) else ""


def _leaves(network: Network, name: str, sides: Mapping[str, str], where: str) -> bool:
    readers = network.consumers.get(name, ())
    crosses = any((sides[reader.name] == HERE) != (where == HERE) for reader in readers)
    return crosses or (where == HERE and name in network.outputs)


def _listed(causes: Collection[Cause]) -> str:
    return "; ".join(map(str, list(causes)[:MOST_CAUSES]))


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f} %"


def _shown(count: int | None) -> str:
    return "?" if count is None else f"{count} B"
