"""A session compared with ONNX Runtime: outputs, and every integer tensor that is visible in both."""

from __future__ import annotations

from typing import Any

import numpy as np
import quantized_networks as networks

from qconv.network import Value
from qconv.onnx import Session
from qconv.onnx.model import FOLDED_ALREADY

INTEGERS = ("int8", "uint8", "int32")


def assert_equal(got: Any, wanted: Any, what: str) -> None:
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), what
    np.testing.assert_array_equal(got, wanted, what)


def integer_tensors(session: Session) -> list[str]:
    """Return the integer tensors that leave a layer on kernels, or a subgraph in the fallback."""
    runner = session._described.runner
    made = [name for s in runner.segments for name in s.outputs]
    made += [name for s in runner.segments if s.served for layer in s.layers for name in layer.outputs]
    return [name for name in dict.fromkeys(made) if runner.network.tensor(name).dtype in INTEGERS]


# The first run goes layer by layer, the second is recorded, and the third replays.
RUNS = 3


def compare(
    model: Any, config: dict[str, str], feeds: dict[str, Any], device: str = "cpu", in_convolutions: bool = False
) -> tuple[Session, int]:
    """Compare outputs and every integer tensor at tolerance 0; return the session and the number of tensors. Sums and
    tables are always or never parts of the preceding convolutions."""
    # Tensors inside a fused kernel are not visible.
    session = Session(
        model, device, config=config, fused_convolutions=False, pools_in_convolutions=False,
        sums_in_convolutions=in_convolutions, tables_in_convolutions=in_convolutions, bits="onnxruntime",
    )  # fmt: skip
    names = integer_tensors(session)
    values = session._described.runner.run({name: Value(session._device, host=x) for name, x in feeds.items()}, names)
    # Query the original model where possible; for tensors that ONNX Runtime renames while folding, query the folded
    # model.
    known = {name for node in model.graph.node for name in node.output}
    before = [] if set(names) - known else names
    expected = networks.tensors_by_ort(model, feeds, before, config) if before else {}
    if not before:
        rewritten = session._model.proto
        expected = networks.tensors_by_ort(rewritten, feeds, names, without=FOLDED_ALREADY)
    for name in names:
        assert_equal(values[name].on_host, expected[name], name)
    for turn in range(RUNS):
        fed = {name: np.roll(x, turn, -1) for name, x in feeds.items()}
        given, wanted = session.run(None, fed), networks.by_ort(model, fed, config)
        for name, got, want in zip(session.output_names, given, wanted, strict=True):
            assert_equal(got, want, f"{name}, run {turn}")
    return session, len(names)
