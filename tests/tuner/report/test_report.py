"""The report: its numbers, and the page in a browser, light and dark, wide and narrow."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from qconv import Conv2d, generator
from qconv.cli import main
from qconv.errors import DatabaseError
from qconv.ops.registry import parse
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement
from qconv.tuner import report
from qconv.tuner.report.charts import LEFT

LAYER = Conv2d(32, 28, 28, 128, 128, 3, 3, pad=1)
DEVICE, BEGIN = "NVIDIA H200", datetime(2026, 1, 1, tzinfo=UTC)


def rows_by(time_of: Callable[[int, Measurement], float]) -> list[Measurement]:
    plans = [plan for plan in generator.space(LAYER, target("sm_90a"), likely=True)[0] if plan.config.family == "simt"]
    rows = []
    for i, plan in enumerate(plans[:24]):
        row = Measurement(
            *(LAYER, plan.config, DEVICE, "sm_90a", "nvrtc 13.0", f"{i:032x}", "correct"),
            times_us=(1.0,),
            median_us=1.0,
            created_at=BEGIN + timedelta(seconds=i),
        )
        us = time_of(i, row)
        rows.append(replace(row, times_us=(us,), median_us=us))
    return rows


@pytest.fixture
def database(tmp_path: Path) -> Path:
    rows = rows_by(lambda i, row: 50.0 - i)
    failed = replace(
        rows[3], outcome="compile", reason="ptxas: <too many> registers\nmore", times_us=(), median_us=None
    )
    with Database.open(tmp_path / "t.sqlite") as opened:
        for row in [*rows[:3], failed, *rows[4:]]:
            opened.add(row)
    return tmp_path / "t.sqlite"


def test_what_it_says_of_a_layer(database: Path) -> None:
    with Database.open(database) as rows:
        made = report.read(rows, None, {str(LAYER): ("cudnn", 54.0)})
        with pytest.raises(DatabaseError, match="no row of an A100; it has of: NVIDIA H200"):
            report.read(rows, "an A100", {})
    (layer,) = made.layers
    assert (layer.best_us, len(layer.rows), made.over_peers) == (27.0, 24, 2.0)
    assert layer.convergence()[:5] == pytest.approx([27 / 50, 27 / 49, 27 / 48, 27 / 48, 27 / 46])
    assert layer.tops == pytest.approx(LAYER.operations / 27e6)
    assert made.of_floor == pytest.approx(max(LAYER.operations / 1979, LAYER.io_bytes / 4.27) / 1e6 / 27.0)


def test_what_only_moves_bytes_has_no_place_under_the_roofline(database: Path, tmp_path: Path) -> None:
    moved = parse("channel_shuffle:rows=64:groups=3:width=8:x_type=int8")
    config = generator.default(moved, target("sm_90a")).config
    row = replace(rows_by(lambda i, row: 5.0)[0], problem=moved, config=config)
    with Database.open(database) as rows, Database.open(tmp_path / "moved.sqlite") as alone:
        drawn = report.read(rows, None, {}).figures()["roofline"]
        for each in (rows, alone):
            each.add(row)
        both = report.read(rows, None, {})
        assert len(both.layers) == 2
        assert both.figures()["roofline"] == drawn
        assert "channel_shuffle" in both.html()
        assert "channel_shuffle" in report.read(alone, None, {}).html()


def test_a_winner_that_was_raced_later_was_found_when_it_was_measured_first(database: Path) -> None:
    with Database.open(database) as rows:
        before = report.read(rows, None, {}).layers[0].convergence()
        winner = rows.best(LAYER, DEVICE, "sm_90a")
        assert winner is not None
        second = rows.measurements()[1]
        rows.add(replace(winner, median_us=30.0, times_us=(30.0,), created_at=BEGIN + timedelta(hours=1)))
        rows.add(replace(second, median_us=27.0, times_us=(27.0,), created_at=BEGIN + timedelta(hours=1)))
        after = report.read(rows, None, {}).layers[0].convergence()
    assert before[1] < 1.0
    assert after == pytest.approx([27 / 50, *[1.0] * 23])


def test_the_roofline_is_within_its_axes_where_every_layer_is_right_of_its_ridge(database: Path) -> None:
    with Database.open(database) as rows:
        svg = report.read(rows, None, {}).figures()["roofline"]
    points = re.findall(r"([\d.-]+),([\d.-]+)", re.findall(r'<polyline points="([^"]+)"', svg)[0])
    across = [float(x) for x, _ in points]
    assert across == sorted(across)
    assert across[0] >= LEFT


def test_a_field_that_decides_the_time_explains_it() -> None:
    rows = rows_by(lambda i, row: 10.0 * row.config.tile_m + 0.001 * i)  # type: ignore[attr-defined]
    first = re.findall(r">(simt\.\w+)<", report.importance(rows))[0]
    assert first == "simt.tile_m"
    assert ">100 %<" in report.importance(rows)


def test_the_page_needs_nothing_outside_it(database: Path, tmp_path: Path) -> None:
    page, figures = tmp_path / "out/report.html", tmp_path / "figures"
    main(["report", "--db", str(database), "--out", str(page)])
    text = page.read_text()
    assert not re.search(r"(src|href)=|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert "&lt;too many&gt; registers" in text
    assert text.count("<svg") == len(report.FIGURES)
    main(["report", "--db", str(database), "--out", str(figures), "--format", "svg"])
    assert sorted(path.stem for path in figures.iterdir()) == sorted(report.FIGURES)


def test_one_folder_is_made_and_no_misspelled_ones(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out, kind in ((tmp_path / "no/such/report.html", "html"), (tmp_path / "no/such", "svg")):
        with pytest.raises(SystemExit) as done:
            main(["report", "--db", str(database), "--out", str(out), "--format", kind])
        assert done.value.code == 2
        assert f"there is no folder {tmp_path / 'no'}, and only such in it" in " ".join(capsys.readouterr().err.split())
        assert not (tmp_path / "no").exists()


def test_figures_as_pictures(database: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    main(["report", "--db", str(database), "--out", str(tmp_path / "figures"), "--format", "png"])
    made = {path.name: path.read_bytes()[1:4] for path in (tmp_path / "figures").iterdir()}
    assert made == {f"{name}.png": b"PNG" for name in report.FIGURES}


def test_peers_come_from_a_file_of_results(tmp_path: Path) -> None:
    path = tmp_path / "dense.json"
    path.write_text(json.dumps({"rows": [{"problem": "a", "best_peer": "x", "best_peer_us": 2.0}, {"problem": "b"}]}))
    assert report.peers_of(path) == {"a": ("x", 2.0)}
    path.write_text("[]")
    with pytest.raises(ValueError, match="give a file of bench/results"):
        report.peers_of(path)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_within_its_width(database: Path, tmp_path: Path, width: int) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no Chromium: apt-get install chromium"
    page = tmp_path / "report.html"
    main(["report", "--db", str(database), "--out", str(page)])
    # An element that is wider than the window is written to the title, from a frame of the given width, because windows
    # have a minimum width.
    probe = tmp_path / "probe.html"
    script = "document.title=String(f.contentDocument.documentElement.scrollWidth)+'/'+f.contentDocument.images.length"
    frame = f'<iframe id="f" src="report.html" width="{width}" height="900" onload="{script}"></iframe>'
    probe.write_text(f"<!doctype html><title>none</title>{frame}")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    shown = [browser, *flags, "--dump-dom", "--virtual-time-budget=3000", probe.as_uri()]
    said = subprocess.run(shown, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<title>(\d+)/0</title>", said)
    assert found, said[:300]
    assert int(found.group(1)) <= width
    sizes = []
    for scheme in ("0", "1"):  # dark, light
        picture = tmp_path / f"{scheme}.png"
        how = [f"--window-size={width},1200", f"--blink-settings=preferredColorScheme={scheme}"]
        taken = [browser, *flags, *how, f"--screenshot={picture}", page.as_uri()]
        subprocess.run(taken, capture_output=True, timeout=120, check=True)
        sizes.append(picture.read_bytes())
    assert all(len(picture) > 10_000 for picture in sizes)
    assert sizes[0] != sizes[1]
