"""Networks of known shapes, for targets that are not present."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from qconv.device import Device
from qconv.errors import Unshippable
from qconv.instances.load.building import Place
from qconv.network import Layer, Network, Tensor
from qconv.network.graph.served import Prepared
from qconv.network.ship.network_export import Export, Shippable, program_of
from qconv.targets.target import target

CPU = Place("", target("cpu"))


@dataclass(frozen=True, eq=False)
class Refusing:
    layer: Layer
    inputs: tuple[str, ...] = ("x",)
    y: str = "y"

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        raise ValueError(f"no kernel has {shapes[0][0]} rows")


def network(shape: tuple[int | None, ...]) -> Shippable:
    layer = Layer("one", "Odd", ("x",), ("y",))
    tensors = {"x": Tensor("x", "int8", shape)}
    return Shippable(Network(("x",), ("y",), (layer,), tensors, {}), {"one": Refusing(layer)})


def test_a_layer_without_a_kernel_for_its_shape_is_named() -> None:
    with pytest.raises(Unshippable, match=r"computes Odd \(one\): for inputs of shape \(3, 4\): no kernel has 3"):
        program_of(network((3, 4)), CPU)


def test_a_layer_that_is_not_served_is_named() -> None:
    left = network((3, 4))
    with pytest.raises(Unshippable, match=r"no kernel computes Odd \(one\)"):
        program_of(Shippable(left.network, {}), CPU)


def test_an_open_extent_is_named() -> None:
    with pytest.raises(Unshippable, match="the shape of the input 'x' is not known"):
        program_of(network((None, 4)), CPU)


def test_targets_are_named_in_any_way_and_once(tmp_path: Path) -> None:
    assert [place.target.name for place in Export(tmp_path / "new", ["orin", "sm_87", "cpu"]).places] == [
        "sm_87",
        "cpu",
    ]
    assert [place.target.name for place in Export(tmp_path / "new", "cpu").places] == ["cpu"]
