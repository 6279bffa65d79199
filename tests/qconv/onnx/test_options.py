"""The other arguments of a session: errors are refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper
from unusual_models import Made, conv

from qconv.errors import DeviceError
from qconv.onnx import Backend, Session, with_integer_inputs
from qconv.onnx.options import OF_INTEGERS, Bits, check_inputs, meaning, providers
from qconv.onnx.ship import build

CPU = "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("says", "given"),
    [
        ("strict='no' must be True or False", {"strict": "no"}),
        ("fused_convolutions='yes' must be True, False, or None, which decides", {"fused_convolutions": "yes"}),
        ("sums_in_convolutions=1 must be True, False, or None", {"sums_in_convolutions": 1}),
        ("tables_in_convolutions=0 must be True, False, or None", {"tables_in_convolutions": 0}),
        (r"pools_in_convolutions=\[\] must be True, False, or None", {"pools_in_convolutions": []}),
        (r"settings are strings; write \{'session.any': '1'\}", {"config": {"session.any": 1}}),
        (r"settings are strings; write \{'3': '1'\}", {"config": {3: "1"}}),
        ("config='x' must be a mapping of ONNX Runtime's settings", {"config": "x"}),
        ("does not take the setting '' of config: Config key is empty", {"config": {"": "1"}}),
        ("providers has 'Foo', which onnxruntime .* does not have .*: take one of .*CPUExec", {"providers": ["Foo"]}),
        ("providers has 3, which", {"providers": [CPU, 3]}),
        (f"providers='{CPU}' must be a list of names: write ['{CPU}']".replace("[", r"\["), {"providers": CPU}),
    ],
)  # fmt: skip
def test_what_is_asked_for_wrongly_is_refused(says: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=says):
        Session(conv().proto, "cpu", **given)


@pytest.mark.parametrize(
    "config",
    [
        {"session.save_model_format": "ORT"},
        {"session.optimized_model_external_initializers_file_name": "weights.bin"},
    ],
)  # fmt: skip
def test_how_a_model_would_be_written_changes_nothing(config: dict[str, str]) -> None:
    made = conv()
    wanted = Session(made.proto, "cpu").run(None, made.feeds)
    assert Session(made.proto, "cpu", config=config).run(None, made.feeds)[0].tolist() == wanted[0].tolist()


def test_a_folder_is_built_with_settings_that_are_strings(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"settings are strings; write \{'a': '1'\}"):
        build(conv().proto, tmp_path / "model.qconv", "cpu", config={"a": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize(("given", "joined"), [("integers", False), ("onnxruntime", True)])
def test_onnxruntime_joins_floats_to_ops_of_its_own_for_its_bits_alone(given: str, joined: bool) -> None:
    """Expressions join more of them: a Gelu by its parts, and what is before and behind it."""
    nodes = [
        helper.make_node("Div", ["x", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["m"]),
        helper.make_node("Mul", ["m", "half"], ["y"]),
    ]
    held = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    proto = Made(nodes, {"x": np.ones((2, 8), np.float32)}, held).proto
    assert Session(proto, "cpu", bits=given)._model.network.layers[-1].op == ("com.microsoft.Gelu" if joined else "Mul")
    assert bool(meaning(given).bits.without) != joined
    assert meaning().bits is Bits.INTEGERS


def test_optimizers_that_take_floats_of_8_bits_for_integers_are_left_out() -> None:
    without = Bits.INTEGERS.without
    zero = helper.make_tensor("z", TensorProto.FLOAT8E5M2, (), b"\0", raw=True)
    nodes = {
        "held": ([], [zero]),
        "a node": ([helper.make_node("Constant", [], ["z"], value=zero)], []),
        "its type": (
            [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.FLOAT8E4M3FN)],
            [],
        ),
    }
    for held_as, (made, held) in nodes.items():
        graph = helper.make_graph(made, "g", [], [], held)
        assert Bits.INTEGERS.without_in(graph) - without == OF_INTEGERS, held_as
        assert not Bits.ONNXRUNTIME.without_in(graph)
    integers = helper.make_graph([], "g", [], [], [helper.make_tensor("z", TensorProto.INT8, (), [0])])
    assert Bits.INTEGERS.without_in(integers) == without


def test_providers_may_have_options() -> None:
    named = [(CPU, {}), CPU]
    assert providers(named, "cpu") == named
    assert providers(None, "cpu") == providers([], "cpu") == [CPU]
    made = conv()
    assert Session(made.proto, "cpu", providers=named[:1]).run(None, made.feeds)  # type: ignore[arg-type]


def test_a_device_is_asked_for_by_its_name() -> None:
    with pytest.raises(DeviceError, match="the device 0 is not known; use cpu"):
        Session(conv().proto, device=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="device=0 is not here; there is CPU"):
        Backend.prepare(conv().proto, device=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("as_a_file", [True, False])
def test_what_is_no_model_has_no_integer_inputs(as_a_file: bool, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"garbage")
    what = str(path) if as_a_file else r"what was given \(7 bytes\)"
    with pytest.raises(ValueError, match=f"{what} cannot be read as an ONNX model: Error parsing"):
        with_integer_inputs(path if as_a_file else b"garbage")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["imgae"], r"the input 'imgae' is not known \(did you mean 'image'\?\), 'image' was not given; .* image, k"),
        (["image", "other"], "the input 'other' is not known; the model takes image, k"),
        ([], "the input 'image' was not given; the model takes image, k"),
    ],
)  # fmt: skip
def test_a_misspelled_input_is_named_beside_the_one_that_is_missing(given: list[str], says: str) -> None:
    """`k` has a default."""
    with pytest.raises(ValueError, match=f"^{says}$"):
        check_inputs(given, ["image"], ["image", "k"])
    check_inputs(["image"], ["image"], ["image", "k"])
