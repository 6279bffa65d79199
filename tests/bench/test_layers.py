"""The runner of suites on the CPU device: from the csv to the document, the table and the picture."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from current import is_current

from qconv import Conv2d

CSV = """name,N,H,W,C,K,R,S,stride,pad,groups,cutlass_sm80_us
small,1,5,5,8,8,3,3,1,1,1,4.5
again,1,5,5,8,8,3,3,1,1,1,4.5
wide,1,4,4,8,16,1,1,1,0,1,
"""
RESULTS = Path(__file__).parents[2] / "bench/results/nvidia-h200"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from layers import main

    folder = tmp_path_factory.mktemp("bench")
    (folder / "layers.csv").write_text(CSV)
    tuning = ["--trials", "2", "--db", str(folder / "tune.sqlite"), "--device", "cpu", "--commit", "c0ffee"]
    main([str(folder / "layers.csv"), "--suite", "dense", "--out", str(folder / "out"), *tuning])
    found: dict[str, Any] = json.loads((folder / "out/dense.json").read_text())
    return found


@pytest.mark.slow
def test_a_document_says_all_that_a_figure_depends_on(document: dict[str, Any]) -> None:
    assert {"suite", "device", "driver", "toolchain", "packages", "clocks", "protocol", "commit", "at", "rows"} <= set(
        document
    )
    assert document["commit"] == "c0ffee"
    assert set(document["clocks"]) == {"sm_before_mhz", "sm_after_mhz"}
    assert {"rotated_bytes", "repeats", "statistic", "order"} <= set(document["protocol"])


@pytest.mark.slow
def test_a_row_holds_ours_and_the_peers(document: dict[str, Any]) -> None:
    small, wide = document["rows"]
    fields = {"name", "problem", "time_us", "floor_us", "tops", "peers", "best_peer_us", "config", "verified"}
    for row in (small, wide):
        assert fields <= set(row)
        assert row["verified"] is True
        assert row["peers"]["simt"] > 0
        # cuDNN needs a GPU, so it is missing, with a reason.
        assert set(row["missing"]) == {"cudnn_int8", "cudnn_fp16", "cudnn_bf16"}
        assert all(row["missing"].values())
        assert (row["best_peer"], row["best_peer_us"]) == (None, None)
        assert row["trials"] == 2
        assert is_current(row, document["device"]["target"])
    assert small["cutlass_sm80_us"] == 4.5
    assert "cutlass_sm80_us" not in wide
    # Equal problems are measured once, and both names are kept.
    assert small["layers"] == ["small", "again"]


@pytest.mark.slow
def test_the_summary_counts_and_compares(document: dict[str, Any]) -> None:
    said = document["summary"]
    small = document["rows"][0]
    assert (said["rows"], said["verified"]) == (2, 2)
    assert said["geometric_means"]["x sm80"] == pytest.approx(4.5 / small["time_us"])
    assert said["slower_than_cutlass_sm80"] == ["small"]


def test_a_database_is_needed_to_tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from layers import main

    (tmp_path / "layers.csv").write_text(CSV)
    given = [str(tmp_path / "layers.csv"), "--suite", "s", "--out", str(tmp_path), "--device", "cpu"]
    with pytest.raises(SystemExit):
        main(given)
    assert "--no-tune" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*given, "--no-tune", "--peers", "simt,nobody"])
    assert "nobody" in capsys.readouterr().err


def rows() -> list[dict[str, Any]]:
    common = {"tops": 1.0, "config": {"family": "f", "tile_m": 8}, "verified": True}
    return [
        common
        | {"name": "a", "time_us": 10.0, "floor_us": 5.0, "cutlass_sm80_us": 40.0}
        | {"peers": {"cudnn_int8": 20.0, "simt": 90.0}, "best_peer": "cudnn_int8", "best_peer_us": 20.0},
        common
        | {"name": "b", "time_us": 10.0, "floor_us": 2.5, "peers": {"cudnn_fp16": 5.0}}
        | {"best_peer": "cudnn_fp16", "best_peer_us": 5.0, "verified": False},
        common | {"name": "c", "time_us": 3.0, "floor_us": None, "peers": {}, "best_peer": None, "best_peer_us": None},
    ]


def test_geometric_means_are_over_the_rows_that_have_both() -> None:
    from table import means

    assert means(rows()) == pytest.approx(
        {"of floor": (0.5 * 0.25) ** 0.5, "x best peer": 1.0, "x sm80": 4.0, "x simt": 9.0}
    )
    assert means([]) == {}


def test_the_table_names_what_is_wrong() -> None:
    from rich.console import Console
    from table import table

    shown = io.StringIO()
    Console(width=160, file=shown).print(table("t", rows()))
    cells = [[cell.strip() for cell in line.split("│")] for line in shown.getvalue().splitlines()]
    by_name = {line[1]: line for line in cells if len(line) > 2}
    a, b, mean = (by_name[name] for name in ("a", "b", "geometric mean"))
    assert "cudnn_int8 20.00" in a
    assert "50.0 %" in a
    assert "NO" in b
    assert "4.00" in mean


def test_models_are_added_up_layer_by_layer() -> None:
    from layers import model_totals
    from workload import Layer

    one, two = Conv2d(1, 4, 4, 8, 8, 1, 1), Conv2d(1, 4, 4, 8, 16, 1, 1)
    layers = [Layer("m/a", "m", one, False), Layer("m/b", "m", one, False), Layer("n/c", "n", two, False)]
    measured = [
        {"problem": str(one), "time_us": 2.0, "floor_us": 1.0, "best_peer_us": None},
        {"problem": str(two), "time_us": 3.0, "floor_us": 1.0, "best_peer_us": 4.0},
    ]
    assert model_totals(measured, layers) == {
        "m": {"layers": 2, "time_us": 4.0, "floor_us": 2.0, "best_peer_us": None},
        "n": {"layers": 1, "time_us": 3.0, "floor_us": 1.0, "best_peer_us": 4.0},
    }


def test_what_a_picture_shows() -> None:
    from plot import series

    assert series(rows()) == {
        "floor": [5.0, 2.5, None],
        "ours": [10.0, 10.0, 3.0],
        "cudnn_int8": [20.0, None, None],
        "simt": [90.0, None, None],
        "cudnn_fp16": [None, 5.0, None],
        "cutlass_sm80": [40.0, None, None],
    }


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["simt"])
def test_committed_results_have_a_picture(suite: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'qconv-tune[bench]'")
    from plot import draw

    document = json.loads((RESULTS / f"{suite}.json").read_text())
    png, svg = draw(document, tmp_path / "first")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert all(row["name"] in svg.read_text() for row in document["rows"])
    (_, again) = draw(document, tmp_path / "second")
    assert again.read_bytes() == svg.read_bytes()
