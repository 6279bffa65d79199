"""The export follows the rules of the T4 schemas 1.0.0 (results-schema.json, metadata-schema.json), written out
here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime

import pytest

from qconv.tune_db import t4
from qconv.tune_db.measurement import OUTCOMES, Measurement

Make = Callable[..., Measurement]
INVALIDITY = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@pytest.fixture
def rows(make: Make) -> list[Measurement]:
    bare = make(20, registers=None, spill_bytes=None, smem_bytes=None, compile_ms=None, protocol=None)
    return [bare, *(make(number, outcome=word) for number, word in enumerate(OUTCOMES))]


def test_the_words_are_those_of_the_format() -> None:
    assert set(OUTCOMES) == INVALIDITY


def test_results_have_the_shape(rows: list[Measurement]) -> None:
    document = json.loads(json.dumps(t4.results(rows), allow_nan=False))
    assert set(document) == {"schema_version", "results"}
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", document["schema_version"])
    assert len(document["results"]) == len(rows)
    for result in document["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= set(result), "the required ones"
        assert set(result) <= {
            "timestamp",
            "configuration",
            "objectives",
            "times",
            "invalidity",
            "correctness",
            "measurements",
        }
        assert datetime.fromisoformat(result["timestamp"]).tzinfo is not None
        assert isinstance(result["configuration"], dict)
        assert result["objectives"] == ["time"]
        assert result["invalidity"] in INVALIDITY
        assert is_number(result["correctness"])
        times = result["times"]
        assert set(times) <= {"compilation_time", "runtimes", "framework", "search_algorithm", "validation"}
        assert isinstance(times["runtimes"], list)
        assert all(is_number(value) for name, value in times.items() if name != "runtimes")
        for measurement in result["measurements"]:
            assert set(measurement) == {"name", "value", "unit"}
            assert isinstance(measurement["name"], str)
            assert isinstance(measurement["unit"], str)
            assert is_number(measurement["value"]) or isinstance(measurement["value"], (str, list))


def test_results_tell_what_was_measured(make: Make) -> None:
    correct, failed = t4.results([make(0), make(1, outcome="compile", reason="line 3")])["results"]
    assert correct["configuration"] == make(0).config.as_dict()
    assert correct["times"] == {"runtimes": pytest.approx([0.011, 0.0101, 0.0103]), "compilation_time": 812.5}
    named = {m["name"]: (m["value"], m["unit"]) for m in correct["measurements"]}
    assert named["time"] == (pytest.approx(0.0103), "ms")
    assert named["registers"] == (40, "")
    assert named["device"] == ("NVIDIA H200", "")
    assert (correct["invalidity"], correct["correctness"]) == ("correct", 1)
    assert (failed["invalidity"], failed["correctness"]) == ("compile", 0)
    assert failed["times"] == {"runtimes": []}
    named = {m["name"]: m["value"] for m in failed["measurements"]}
    assert named["reason"] == "line 3"
    assert "time" not in named


def test_metadata_has_the_shape(rows: list[Measurement], make: Make) -> None:
    rows.append(make(9, device="AMD", target="gfx942", toolchain="hiprtc 7.0"))
    given = {"nvidia-smi": {"driver": "580"}}
    document = t4.metadata(rows, operating_system="Linux 6.1", device_query=given, requirements=["cupy==14.2.0"])
    assert json.loads(json.dumps(document)) == document
    assert set(document) == {"schema_version", "metadata"}
    assert document["schema_version"] == "1.0.0"
    assert document["metadata"] == {
        "hardware": {
            "hardware_description": [
                {"device": "AMD", "target": "gfx942"},
                {"device": "NVIDIA H200", "target": "sm_90a"},
            ],
            "operating_system": "Linux 6.1",
        },
        "environment": {
            "device_query": given,
            "requirements": ["hiprtc 7.0", "nvrtc 13.0", "cupy==14.2.0"],
        },
    }
    assert "operating_system" not in t4.metadata(rows)["metadata"]["hardware"]
