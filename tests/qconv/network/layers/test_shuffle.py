"""Channel shuffles recognized as one layer, and sequences that only look like one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, Value, fold_shuffles, read_layer
from qconv.network.graph.served import Served
from qconv.network.layers.shuffle import Shuffled

CPU = open_device("cpu")
RNG = np.random.default_rng(5)
SWAP = [0, 2, 1, 3, 4]


def folded(split: list[int], perm: list[int], join: list[int], *more: Layer, outputs: tuple[str, ...] = ("z",)) -> Any:
    layers = (
        Layer("split", "Reshape", ("x", "apart"), ("y",)),
        Layer("swap", "Transpose", ("y",), ("t",), {"perm": perm}),
        Layer("join", "Reshape", ("t", "whole"), ("z",)),
        *more,
    )
    tensors = {name: Tensor(name, "int8") for name in ("x", "y", "t", "z", "v", "u")}
    constants = {"apart": np.asarray(split), "whole": np.asarray(join)}
    network = Network(("x",), outputs, layers, tensors, constants)
    return fold_shuffles(network, {layer.name: read_layer(layer, network) for layer in layers})


def run(served: Served, x: Any, is_last: bool) -> Value:
    prepared = served.prepare([x.shape], CPU)
    order = (0, *range(2, x.ndim), 1)
    value = Value(CPU, channels_last=x.transpose(order).copy()) if is_last else Value(CPU, there=x)
    return prepared(value)


def images(*shape: int) -> Any:
    return RNG.integers(-128, 128, shape).astype("int8")


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 12, 3, 5), 3), ((1, 8, 1, 1), 2), ((3, 6, 7), 6), ((2, 6, 2, 3, 2), 2)]
)
def test_groups_of_channels_are_dealt_out_in_turn(shape: tuple[int, ...], groups: int, is_last: bool) -> None:
    split = [shape[0], groups, shape[1] // groups, *shape[2:]]
    perm = [0, 2, 1, *range(3, len(split))]
    network, served = folded(split, perm, list(shape))
    (name,) = served
    assert isinstance(served[name], Shuffled)
    assert [layer.outputs for layer in network.layers] == [("z",)]
    x = images(*shape)
    made = run(served[name], x, is_last)
    assert made.is_channels_last
    np.testing.assert_array_equal(made.on_host, x.reshape(split).transpose(perm).reshape(shape))
    prepared = served[name].prepare([shape], CPU)
    assert prepared.why.startswith("shuffle, ")
    assert [problem.key for problem in prepared.problems] == [
        f"channel_shuffle:rows={x.size // shape[1]}:groups={groups}:width={shape[1] // groups}:x_type=int8"
    ]


@pytest.mark.parametrize(
    ("split", "join"),
    [
        ([2, 4, 3, 5, 3], [2, 12, 3, 5]),  # other axes split
        ([2, 3, 4, 3, 5], [2, 12, 5, 3]),  # joined to another shape
        ([1, 2, 12, 3, 5], [2, 12, 3, 5]),  # images split
        ([2, 12, 15], [2, 12, 3, 5]),
    ],
)
@pytest.mark.parametrize("is_last", [False, True])
def test_what_only_looks_like_it_is_done_in_turn(split: list[int], join: list[int], is_last: bool) -> None:
    perm = SWAP[: len(split)]
    _, served = folded(split, perm, join)
    x = images(2, 12, 3, 5)
    made = run(served["join"], x, is_last)
    np.testing.assert_array_equal(made.on_host, x.reshape(split).transpose(perm).reshape(join))
    prepared = served["join"].prepare([x.shape], CPU)
    assert prepared.why.startswith("no kernel")
    assert prepared.problems == ()


@pytest.mark.parametrize(("split", "join"), [([2, 2, 5, 3, 5], [2, 12, 3, 5]), ([2, 2, 6, 3, 5], [2, 11, 3, 5])])
def test_a_shape_that_does_not_fit_is_refused(split: list[int], join: list[int]) -> None:
    _, served = folded(split, SWAP, join)
    with pytest.raises(ValueError, match="cannot be seen as"):
        served["join"].prepare([(2, 12, 3, 5)], CPU)


def test_any_batch_and_any_image() -> None:
    _, served = folded([0, 3, -1, 4, 5], SWAP, [0, -1, 4, 5])
    for count in (1, 3):
        x = images(count, 12, 4, 5)
        wanted = x.reshape(count, 3, 4, 4, 5).transpose(SWAP).reshape(x.shape)
        np.testing.assert_array_equal(run(served["join"], x, True).on_host, wanted)


def test_what_somebody_else_reads_stays() -> None:
    reader = Layer("reader", "Identity", ("t",), ("v",))
    for more, outputs in (((reader,), ("z", "v")), ((), ("z", "y"))):
        network, served = folded([2, 3, 4, 3, 5], SWAP, [2, 12, 3, 5], *more, outputs=outputs)
        assert set(served) == {layer.name for layer in network.layers} >= {"split", "swap", "join"}


def test_another_order_stays_and_two_shuffles_in_turn_are_two() -> None:
    _, served = folded([2, 3, 4, 3, 5], [0, 2, 1, 4, 3], [2, 12, 5, 3])
    assert set(served) == {"split", "swap", "join"}
    more = (
        Layer("again", "Transpose", ("z",), ("v",), {"perm": SWAP}),
        Layer("last", "Reshape", ("v", "whole"), ("u",)),
    )
    # The join would be the split of a second shuffle, if it were not used.
    network, served = folded([2, 3, 4, 3, 5], SWAP, [2, 3, 4, 3, 5], *more, outputs=("u",))
    assert [layer.name for layer in network.layers] == ["join", "again", "last"]
    assert isinstance(served["join"], Shuffled)


def test_more_groups_than_a_thread_holds_are_turned_in_turn() -> None:
    _, served = folded([1, 66, 2, 2, 2], SWAP, [1, 132, 2, 2])
    x = images(1, 132, 2, 2)
    wanted = x.reshape(1, 66, 2, 2, 2).transpose(SWAP).reshape(x.shape)
    np.testing.assert_array_equal(run(served["join"], x, True).on_host, wanted)
    assert served["join"].prepare([x.shape], CPU).problems == ()


@pytest.mark.parametrize("shape", [(0, 12, 3, 5), (2, 12, 0, 5)])
def test_an_empty_tensor_is_for_others(shape: tuple[int, ...]) -> None:
    _, served = folded([shape[0], 3, 4, *shape[2:]], SWAP, list(shape))
    with pytest.raises(ValueError, match=r"rows=0 must be between 1|cannot be seen as"):
        served["join"].prepare([shape], CPU)
