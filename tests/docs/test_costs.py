"""The page "The cost of a layer": the data of the page, and the form in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import costs
import pytest
from browser import title_set_by

from qconv.instances.choose import shipped

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> str:
    return str(costs.script())


def data_of(script: str) -> Any:
    return json.loads(script.removeprefix("const COSTS = ").rstrip().removesuffix(";"))


def test_rows_are_shipped_winners_above_their_floors(script: str) -> None:
    data = data_of(script)
    times = {row.median_us for layer in shipped.layers() for row in layer.measurements(target="sm_90a")}
    assert len(data["rows"]) > 100
    for row in data["rows"]:
        assert row["us"] in times
        assert 0 < row["floor"] < row["us"], row
        assert f" c={row['c']} k={row['k']} " in row["label"]


@pytest.mark.slow
def test_the_form_looks_layers_up_in_a_browser(script: str, tmp_path: Path) -> None:
    (form,) = re.findall(r"```\{raw\} html\n(.*?)```", (DOCS / "costs.md").read_text(), re.DOTALL)
    html = re.sub(r'src="\.\./_static/', 'src="', form)
    (tmp_path / "page.html").write_text(f"<!doctype html><article>{html}</article>")
    (tmp_path / "costs-data.js").write_text(script)
    (tmp_path / "costs.js").write_text((DOCS / "static/costs.js").read_text())
    dense = next(row for row in data_of(script)["rows"] if row["family"] == "wgmma" and row["r"] == 3)
    names = ("n", "h", "w", "c", "k", "r", "s", "stride", "pad", "groups")
    given = json.dumps({name: dense[name] for name in names})
    said = title_set_by(
        f"""
        const page = f.contentDocument, w = f.contentWindow, form = page.getElementById("layer");
        const off = w.eval("Math.max(...COSTS.rows.map((row) => Math.abs(floorUs(row) / row.floor - 1)))");
        const found = [off < 0.02];
        const ask = (one) => {{
          for (const [name, value] of Object.entries(one)) form.elements[name].value = value;
          form.dispatchEvent(new Event("input"));
          found.push(page.getElementById("answer").textContent, page.querySelectorAll("#near tbody tr").length,
            page.getElementById("command").textContent);
        }};
        ask({given}); ask({{ c: {dense["c"]} + 16 }}); ask({{ groups: 7 }});
        document.title = JSON.stringify(found).replaceAll("<", "");
        """,
        tmp_path / "page.html",
        390,
    )
    floors, *answers = json.loads(said)
    assert floors
    assert answers[0].startswith(f"Measured: {dense['us']:.2f} us")
    assert f"--c {dense['c']} --k {dense['k']} " in answers[2]
    assert answers[3].startswith("About ")
    assert answers[4] == 3
    assert answers[6:] == ["channels and outputs must be multiples of the groups", 3, ""]
