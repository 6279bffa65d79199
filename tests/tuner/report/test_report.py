"""The report: its numbers, and the page in a browser, light and dark, wide and narrow."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from browser import HEADLESS, program, title_set_by

from qconv import Conv2d, generator
from qconv.cli import main
from qconv.errors import DatabaseError
from qconv.ops.registry import parse
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement
from qconv.tuner import report
from qconv.tuner.report import figures
from qconv.tuner.report.charts import LEFT
from qconv.tuner.report.code import code_of

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
        assert "<svg" not in report.read(alone, None, {}).html()


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
    drawn = figures.importance(rows)
    assert drawn is not None
    assert re.findall(r">(simt\.\w+)<", drawn)[0] == "simt.tile_m"
    assert ">100%<" in drawn


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
    assert report.peers_of([path]) == {"a": ("x", 2.0)}
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"rows": [{"problem": "b", "best_peer": "y", "best_peer_us": 3.0}]}))
    assert report.peers_of([path, other]) == {"a": ("x", 2.0), "b": ("y", 3.0)}
    path.write_text("[]")
    with pytest.raises(ValueError, match="give a file of bench/results"):
        report.peers_of([path, other])


def columns_of(page: str) -> list[str]:
    return re.findall(r"<th[^>]*><button>([^<]+)</button>", page)


def test_a_winner_alone_draws_no_empty_card_and_no_empty_column(tmp_path: Path) -> None:
    """As in the database of shipped winners."""
    with Database.open(tmp_path / "one.sqlite") as rows:
        rows.add(rows_by(lambda i, row: 5.0)[0])
        page = report.read(rows, None, {}).html()
    assert re.findall("<h2>([^<]+)</h2>", page) == ["Roofline", "Problems"]
    assert columns_of(page) == ["problem", "family", "tuned us", "TOPS", "floor us", "of floor"]
    assert "configs measured, every output right" in " ".join(page.replace("<span>", "").split())


def test_the_cpu_device_says_nothing_of_a_gpu(tmp_path: Path) -> None:
    with Database.open(tmp_path / "cpu.sqlite") as rows:
        for row in rows_by(lambda i, row: 50.0 - i):
            rows.add(replace(row, device="cpu here", target="cpu", registers=32, smem_bytes=1024))
        page = report.read(rows, None, {}).html()
    assert "nothing of a GPU" in page
    assert re.findall("<h2>([^<]+)</h2>", page)[0] == "Convergence"
    assert columns_of(page)[2:] == ["default us", "tuned us", "trials"]
    for word in ("TOPS", "occupancy", "registers", "shared memory"):
        assert f"<dt>{word}</dt>" not in page
        assert f"<button>{word}" not in page


def test_the_gain_is_over_the_default_of_the_same_race(database: Path) -> None:
    """Rows of one race have one time."""
    plan = generator.default(LAYER, target("sm_90a"))
    raced = {"protocol": {"phase": "raced"}, "created_at": BEGIN + timedelta(hours=1)}
    default = replace(rows_by(lambda i, row: 54.0)[0], config=plan.config, digest="d" * 32)
    with Database.open(database) as rows:
        rows.add(default)
        winner = rows.best(LAYER, DEVICE, "sm_90a")
        assert winner is not None
        (unraced,) = report.read(rows, None, {}).layers
        for row in (winner, default):
            rows.add(replace(row, **raced))
        made = report.read(rows, None, {})
    assert (unraced.default_us, unraced.gain) == (54.0, None)
    assert (made.layers[0].gain, made.gain) == (pytest.approx(2.0), pytest.approx(2.0))
    assert ">2.00x</td>" in made.html()


def with_its_source(**needs: int) -> tuple[Measurement, str]:
    """Return a row of a kernel of today, and its source."""
    plan = generator.plan(LAYER, rows_by(lambda i, row: 5.0)[0].config, target("sm_90a"))
    source = generator.render(plan)
    row = replace(rows_by(lambda i, row: 5.0)[0], config=plan.config, digest=source.digest, **needs)
    return row, source.text


def test_what_a_kernel_needs_and_its_source_are_one_press_away(tmp_path: Path) -> None:
    row, text = with_its_source(registers=168, smem_bytes=20480, spill_bytes=8)
    other = replace(row, config=generator.default(LAYER, target("sm_90a")).config, median_us=6.0, times_us=(6.0,))
    assert other.config.family != "simt"
    with Database.open(tmp_path / "one.sqlite") as rows:
        rows.add(row)
        rows.add(other)
        (layer,) = report.read(rows, None, {}).layers
        page = report.read(rows, None, {}).html()
    plan = generator.plan(LAYER, row.config, target("sm_90a"))
    blocks = min(65536 // (168 * plan.main.threads), 2048 // plan.main.threads, 228 * 1024 // (20480 + 1024))
    part = 100 * blocks * plan.main.threads / 2048
    assert layer.facts["registers"] == "168 per thread, 8 bytes spilled"
    assert layer.facts["shared memory"] == "20,480 bytes per block"
    assert layer.facts["occupancy"] == f"{blocks} blocks per SM, {part:.0f} % of its threads"
    assert layer.facts["other families"] == f"{other.config.family} 6.00 us"
    assert all(f"<dd>{said}</dd>" in page for said in layer.facts.values())
    (packed,) = re.findall(r'data-packed="([^"]+)"', page)
    assert gzip.decompress(base64.b64decode(packed)).decode() == text


def test_the_command_for_the_source_prints_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row, text = with_its_source()
    words = shlex.split(code_of(row, False).source_command)
    assert words.pop(0) == "qconv-tune"
    main(words)
    assert capsys.readouterr().out == text
    assert code_of(row, False).machine_code_command.endswith("--format sass")


def test_the_machine_code_is_in_the_page_if_asked_for(tmp_path: Path) -> None:
    row = replace(with_its_source()[0], device="cpu here", target="cpu")
    plan = generator.plan(LAYER, row.config, target("cpu"))
    row = replace(row, digest=generator.render(plan).digest)
    packed = code_of(row, True).packed
    assert list(packed) == ["source", "machine code"]
    assert "disassembly of section .text" in gzip.decompress(base64.b64decode(packed["machine code"])).decode().lower()


def test_a_kernel_that_has_changed_is_called_a_hint_and_has_no_source(database: Path) -> None:
    with Database.open(database) as rows:
        (layer,) = report.read(rows, None, {}).layers
        page = report.read(rows, None, {}).html()
    assert (layer.code.packed, layer.code.launch) == ({}, None)
    assert "lookup takes this config as a hint" in page
    assert "data-packed=" not in page


def test_the_page_is_written_anew_while_configs_are_measured(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    seen: list[str] = []

    def sleep(seconds: float) -> None:
        seen.append(page.read_text())
        us = 20.0 - len(seen)
        with Database.open(database) as rows:
            rows.add(replace(rows_by(lambda i, row: us)[23], created_at=BEGIN + timedelta(days=1, seconds=len(seen))))
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    with pytest.raises(SystemExit) as done:
        main(["report", "--db", str(database), "--out", str(page), "--live"])
    assert done.value.code == 130
    seen.append(page.read_text())
    for number, us in enumerate(("27.00", "19.00", "18.00")):
        assert [f"{us}</td>" in text for text in seen] == [at == number for at in range(3)]
    assert ['http-equiv="refresh" content="5"' in text for text in seen] == [True, True, False]
    assert sorted(path.name for path in tmp_path.iterdir() if "html" in path.name) == ["report.html"]


def test_figures_are_not_live(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["report", "--db", str(database), "--out", str(tmp_path / "f"), "--live", "--format", "svg"])
    assert done.value.code == 2
    assert "--live writes a page" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_sorts_and_filters_problems_and_shows_a_source(tmp_path: Path, width: int) -> None:
    row, text = with_its_source()
    layers = {c: Conv2d(1, 28, 28, c, 64, 3, 3, pad=1) for c in (32, 64, 640)}
    with Database.open(tmp_path / "t.sqlite") as rows:
        rows.add(row)
        for c, layer in layers.items():
            rows.add(replace(row, problem=layer, median_us=1000.0 / c, times_us=(1000.0 / c,)))
        (tmp_path / "report.html").write_text(report.read(rows, None, {}).html())
    said = title_set_by(
        """
        const page = f.contentDocument, filter = page.getElementById("filter");
        const seen = () => [...page.querySelectorAll("#layers tbody")].filter((one) => one.checkVisibility())
          .map((one) => one.dataset.key.match(/:c=([0-9]+)/)[1]).join();
        const found = [seen()];
        const press = [...page.querySelectorAll("th button")].find((one) => one.textContent === "tuned us");
        press.click(); found.push(seen()); press.click(); found.push(seen());
        for (const words of ["c=64", "simt c=6", "c=64 wgmma", ""]) {
          filter.value = words; filter.dispatchEvent(new Event("input")); found.push(seen());
        }
        page.querySelectorAll("details").forEach((one) => { one.open = true; });
        await new Promise((done) => setTimeout(done, 500));
        found.push([...page.querySelectorAll("pre")].map((one) => one.textContent.length).join());
        document.title = found.join("/");
        """,
        tmp_path / "report.html",
        width,
    )
    assert said == f"32,64,128,640/32,64,128,640/640,128,64,32/64///640,128,64,32/{len(text)}"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_within_its_width(database: Path, tmp_path: Path, width: int) -> None:
    row, _ = with_its_source(registers=168, smem_bytes=20480)
    with Database.open(database) as rows:
        rows.add(row)
    page = tmp_path / "report.html"
    main(["report", "--db", str(database), "--out", str(page)])
    script = """
        const page = f.contentDocument;
        page.querySelectorAll("details").forEach((one) => { one.open = true; });
        await new Promise((done) => setTimeout(done, 500));
        document.title = `${page.documentElement.scrollWidth} ${page.images.length}`;
    """
    widest, images = map(int, title_set_by(script, page, width).split())
    assert (widest <= width, images) == (True, 0)
    sizes = []
    for scheme in ("0", "1"):  # dark, light
        picture = tmp_path / f"{scheme}.png"
        how = [f"--window-size={width},1200", f"--blink-settings=preferredColorScheme={scheme}"]
        taken = [program(), *HEADLESS, *how, f"--screenshot={picture}", page.as_uri()]
        subprocess.run(taken, capture_output=True, timeout=120, check=True)
        sizes.append(picture.read_bytes())
    assert all(len(picture) > 10_000 for picture in sizes)
    assert sizes[0] != sizes[1]
