"""A wrong kernel ends `run --verify` and `bench` with exit code 1, and the document lists the differing outputs."""

from __future__ import annotations

import json

import pytest

from qconv import benchmark
from qconv.cli import main
from qconv.tuner.measure import verification as verify

KEY = "conv2d:n=1:h=4:w=4:c=4:k=4:r=1:s=1:x_type=int8:w_type=int8:out_type=int8"


@pytest.mark.parametrize("action", [["run", "--verify"], ["bench"]])
def test_a_wrong_output_is_told_and_fails(
    action: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (verify, benchmark):
        monkeypatch.setattr(module, "mismatch", lambda *_: "y[0] is 1; it must be 2")
    with pytest.raises(SystemExit) as done:
        main([*action, KEY, "--device", "cpu", "--json"])
    assert done.value.code == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verified"] is False
    assert "y[0] is 1; it must be 2" in document["wrong"]
