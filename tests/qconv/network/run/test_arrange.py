"""The kernels of a region: chosen by measured times, else by predictions; the bits stay the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import quantized_networks as networks
from integer_model import Model
from session_comparison import RUNS, assert_equal
from stored_times import one_kernel, store

from qconv import Conv2d, FusedBlock, FusedConv2d, Quantization, generator
from qconv.device import open_device
from qconv.instances.load import expected, serving
from qconv.instances.load.expected import Expectations
from qconv.instances.load.neighbours import Neighbours
from qconv.instances.load.serving import forget
from qconv.network import Value
from qconv.network.run import arrange, runner
from qconv.network.run.arrange import (
    NOISE,
    UNSURE,
    UNSURE_CHAIN_AND_SUM,
    UNSURE_DENSE,
    UNSURE_DENSE_AND_SUM,
    Compared,
    shortest,
    unsure_of,
)
from qconv.network.run.region import Fusion
from qconv.onnx import Session
from qconv.op import Problem
from qconv.problem.chain import Chain
from qconv.tune_db.measurement import KEPT

# The plain CPU device has no matrix instructions, which kernels for several convolutions need.
DEVICE = open_device("cpu.sm_80")
FUSED = {2: "fused", 3: "block"}


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "times.sqlite"))
    forget()
    yield tmp_path / "times.sqlite"
    forget()


def tens(problems: list[Problem]) -> list[tuple[Any, float]]:
    return [(generator.default(one, DEVICE.target), 10.0) for one in problems]


def inverted_residual(seed: int = 0, with_sum: bool = True) -> tuple[Model, str]:
    """Return 1x1, depthwise 3x3, 1x1, and a sum with the first one's input."""
    model = Model("int8", seed)
    x, x_is = model.input(2, 16, 5, 6), model.numbers()
    a_is, b_is, c_is, y_is = (model.numbers() for _ in range(4))
    a = model.conv(x, 16, 32, x_is, a_is)
    b = model.depthwise(a, 32, a_is, b_is, 3)
    c = model.conv(b, 32, 16, b_is, c_is)
    return model, model.add(c, c_is, x, x_is, y_is) if with_sum else c


def alike(made: Any, fed: dict[str, Any], **choice: bool) -> Session:
    """Return a session whose runs match ONNX Runtime bit for bit, layer by layer and recorded."""
    session = Session(made, DEVICE.spec, **choice)
    for turn in range(RUNS):
        given = {name: np.roll(array, turn, -1) for name, array in fed.items()}
        (got,), (want,) = session.run(None, given), networks.by_ort(made, given)
        assert_equal(got, want, f"run {turn}")
    return session


def problems_of(made: Any, fed: dict[str, Any]) -> tuple[list[Problem], list[Problem]]:
    """Return the problems of single layers, and those of several layers in one kernel."""
    session = Session(made, DEVICE.spec, fused_convolutions=True)
    session.run(None, fed)
    (region,) = session._described.runner._regions.values()
    plain, shapes = region.problems([fed[name].shape for name in region.inputs])
    return plain, [fusion.problem(shapes) for fusion in region.fusions]


@pytest.mark.turns
@pytest.mark.parametrize("with_sum", [True, False])
@pytest.mark.parametrize("count", [2, 3])
def test_a_chain_that_was_measured_to_be_faster(count: int, with_sum: bool, times: Path) -> None:
    model, y = inverted_residual(count, with_sum)
    made = model.made(y)
    plain, fused = problems_of(made, model.fed)
    # The last convolution of a chain of this length is the one with the sum.
    wanted = [one for one in fused if len(getattr(one, "LAYERS", "")) == count][-1]
    slow = [(one_kernel(one, DEVICE.target), 1000.0) for one in fused if one is not wanted]
    store(times, DEVICE, [*tens(plain), *slow, (one_kernel(wanted, DEVICE.target), 9.0 * count)])
    forget()
    session = alike(made, model.fed)
    rows = session.explain().rows
    (row,) = (row for row in rows if row.why.startswith(", ".join(["QLinearConv"] * count)))
    assert f"one kernel measured at {9 * count:.2f} us, {10 * (count + with_sum):.2f} us unfused" in row.why
    assert f"; {FUSED[count]}, exact" in row.why
    assert len(rows) == len(plain) - count - with_sum + 1
    assert sum(time.op == "QLinearConv" for time in session.profile(model.fed).rows) == 4 - count
    # Measured to be no faster, it is not chosen, but remains among the problems to tune.
    store(times, DEVICE, [(one_kernel(wanted, DEVICE.target), 10.0 * (count + with_sum))])
    forget()
    session = alike(made, model.fed)
    assert len(session.explain().rows) == len(plain)
    assert set(session.problems) == {*plain, *fused}


def test_a_sum_that_was_measured_to_be_slower(times: Path) -> None:
    model, y = inverted_residual(5)
    made = model.made(y)
    session = alike(made, model.fed, fused_convolutions=False)
    why = "com.microsoft.QLinearAdd folded, which changes no bit; one kernel predicted at"
    assert any(why in row.why for row in session.explain().rows)
    plain, _ = problems_of(made, model.fed)
    (added,) = (
        one for one in session.problems if getattr(one, "quantization", None) and one.quantization.residual != "none"
    )
    store(times, DEVICE, tens([*plain, added]))
    forget()
    session = alike(made, model.fed, fused_convolutions=False)
    assert any("one kernel measured at 10.00 us, 20.00 us unfused" in row.why for row in session.explain().rows)
    for time_us, doubt in ((20.0, ""), (19.9, ", not by the factor of 1.01 by which measured times differ")):
        store(times, DEVICE, [(generator.default(added, DEVICE.target), time_us)])
        forget()
        session = alike(made, model.fed, fused_convolutions=False)
        rows = session.explain().rows
        assert Counter(row.op for row in rows)["com.microsoft.QLinearAdd"] == 1
        assert f"with what follows, one kernel measured at {time_us:.2f} us, 20.00 us unfused{doubt}; " in rows[-2].why
        assert set(session.problems) == {*plain, added}


def test_what_is_between_two_steps_goes_with_its_reader() -> None:
    model, y = inverted_residual(6)
    session = alike(model.made(y), model.fed, fused_convolutions=False)
    runner = session._described.runner
    alive: list[set[str]] = []

    def noted(segment: Any, held: Any) -> Any:
        alive.append(set(held))
        return runner._layer(segment, held)

    given = {name: Value(DEVICE, host=array) for name, array in model.fed.items()}
    (segment,) = runner.segments
    runner._in_turn(segment, given, noted)
    # The input is added at the end; at each step the previous output is alive too.
    assert [len(names - set(given)) for names in alive] == [0, *[1] * (len(alive) - 1)]


def test_a_prediction_has_to_be_clearly_shorter() -> None:
    class Of:
        def __init__(
            self,
            measured_us: float | None,
            predicted_us: float,
            by_bytes: float | None = None,
            is_kept: bool = False,
        ) -> None:
            self.measured_us, self.predicted_us = measured_us, predicted_us
            self.known_us = by_bytes if measured_us is None else measured_us
            self.is_kept = is_kept

    both = [Of(10.0, 7.0), Of(10.0, 3.0)]
    measured = Compared.of(Of(19.0, 50.0), both, UNSURE)  # type: ignore[arg-type, list-item]
    assert (measured.is_measured, measured.safe_ratio) == (True, pytest.approx(0.95 * NOISE))
    # One measurement each cannot be compared: then all are predicted.
    for one, others in ((Of(None, 9.0), both), (Of(1.0, 9.0), [both[0], Of(None, 3.0)])):
        predicted = Compared.of(one, others, UNSURE)  # type: ignore[arg-type]
        assert (predicted.is_measured, predicted.safe_ratio) == (False, pytest.approx(0.9 * UNSURE))
    # A time in sequence cannot be compared with one alone.
    predicted = Compared.of(Of(1.0, 9.0, is_kept=True), both, UNSURE)  # type: ignore[arg-type, list-item]
    assert (predicted.is_measured, predicted.safe_ratio) == (False, pytest.approx(0.9 * UNSURE))
    # The time of a sum by its bytes is nearly as good as a measured one.
    known = Compared.of(Of(19.0, 50.0), [both[0], Of(None, 10.0, by_bytes=10.0)], UNSURE_DENSE)  # type: ignore[arg-type, list-item]
    assert (known.is_measured, known.safe_ratio) == (False, pytest.approx(0.95 * UNSURE))


def test_predictions_of_dense_windows_have_to_be_much_shorter() -> None:
    added = Quantization(residual="int8")
    wide, narrow = Conv2d(1, 8, 8, 16, 32, 1, 1), Conv2d(1, 8, 8, 32, 16, 1, 1)
    depthwise, dense = (Conv2d(1, 8, 8, 32, 32, 3, 3, pad=1, groups=groups) for groups in (32, 1))
    with_sum = replace(narrow, quantization=added)
    assert unsure_of(FusedConv2d(depthwise, narrow)) == UNSURE
    assert unsure_of(FusedBlock(wide, depthwise, with_sum)) == UNSURE_CHAIN_AND_SUM
    assert unsure_of(FusedConv2d(dense, narrow)) == UNSURE_DENSE
    assert unsure_of(FusedBlock(wide, dense, with_sum)) == UNSURE_DENSE_AND_SUM
    assert unsure_of(with_sum) == UNSURE


def test_theshortest_way_is_not_the_greedy_one() -> None:
    """The cheapest kernel is in the middle, but the two around it are cheaper together."""
    first, middle, last = (Fusion(at, at + 2, None) for at in range(3))  # type: ignore[arg-type]
    costs = {first: 11.0, middle: 10.0, last: 11.0}
    assert shortest([10.0] * 4, costs) == [first, last]
    assert shortest([10.0] * 3, {first: 11.0, middle: 10.0}) == [0, middle]
    assert shortest([10.0] * 2, {first: 20.0}) == [0, 1]
    assert shortest([10.0] * 2, {}) == [0, 1]


def test_what_a_race_of_the_network_kept_goes_before_what_is_faster_by_itself(times: Path) -> None:
    model, y = inverted_residual(8)
    made = model.made(y)
    plain, fused = problems_of(made, model.fed)
    every = [one_kernel(one, DEVICE.target) for one in fused]
    store(times, DEVICE, [*tens(plain), *((plan, 1.0) for plan in every)])
    forget()
    assert len(alike(made, model.fed).explain().rows) < len(plain)
    store(times, DEVICE, [(plan, 1000.0) for plan, _ in tens(plain)], protocol={"phase": KEPT})
    forget()
    assert len(alike(made, model.fed).explain().rows) == len(plain)
    # All layers alone, and one kernel for the first two: again by times of one race.
    store(times, DEVICE, [(every[0], 1.0)], protocol={"phase": KEPT})
    forget()
    rows = alike(made, model.fed).explain().rows
    assert sum("one kernel measured at 1.00 us, 2000.00 us unfused" in row.why for row in rows) == 1


@pytest.mark.parametrize("most", [1, 3])
def test_what_a_network_looks_up_is_asked_for_ahead(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then processes choose it, and nothing is left to choose in turn."""
    asked: list[Neighbours] = []
    looked_up: list[Problem] = []

    def answers(problems: Any, *given: Any) -> Any:
        looked_up.extend(problems)
        return serving.answers(problems, *given)

    monkeypatch.setattr(runner, "choose_ahead", lambda neighbours, _: asked.extend(neighbours))
    monkeypatch.setattr(expected, "answers", answers)
    monkeypatch.setenv("QCONV_PROCESSES", "4")
    monkeypatch.setattr(arrange, "MOST_NEIGHBOURS", most)
    model, y = inverted_residual()
    made = model.made(y)
    for choice in (None, True):
        asked.clear()
        looked_up.clear()
        session = Session(made, DEVICE.spec, fused_convolutions=choice)
        by_the_network = {*looked_up}
        chosen = {problem for one in asked for problem in one.chosen(Expectations(DEVICE, in_sequence=True))}
        fused = [(problem, one.problems[begin]) for one in asked for problem, begin in one.fused]
        assert len(asked) > 1
        firsts = [(problem.first, first) for problem, first in fused if isinstance(problem, Chain)]
        assert firsts
        assert all(own == first for own, first in firsts)
        assert set(session.problems) <= chosen
        assert by_the_network == chosen
