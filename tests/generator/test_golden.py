"""Generated sources as last reviewed: a refactor leaves them unchanged, and a change of kernels shows here as a
diff."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping
from pathlib import Path

import golden_files
import pytest
from golden_cases import CASES, plan_of

from qconv import generator
from qconv.generator.families.expression.matmul_mma import MatMulMmaPlan
from qconv.generator.families.mma.plan import MmaPlan
from qconv.targets.instruction_tables import WGMMA_M64K32
from qconv.targets.target import TARGETS

REMEDY = (
    "to accept what is generated now: pytest tests/generator/test_golden.py --regenerate-golden, then read git diff"
)


@pytest.fixture(scope="module")
def reviewed(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """Whole sources, put together again from the files in tests/golden."""
    if request.config.getoption("--regenerate-golden"):
        golden_files.write({name: generator.render(plan_of(name)).text for name in CASES})
    return golden_files.read()


@pytest.mark.parametrize("name", CASES)
def test_the_source_is_the_reviewed_one(name: str, reviewed: Mapping[str, str]) -> None:
    source = generator.render(plan_of(name))
    assert Path(name).suffix == source.suffix
    assert name in reviewed, f"tests/golden has no {name}; {REMEDY}"
    if reviewed[name] != source.text:
        pytest.fail("\n".join([difference(name, reviewed, source.text), REMEDY]), pytrace=False)


def difference(name: str, reviewed: Mapping[str, str], generated: str) -> str:
    """Return a unified diff, and whether all of it is in what kernels of several kinds share."""
    old, new = reviewed[name], generated
    gone = set(golden_files.paragraphs_of(old)) - set(golden_files.paragraphs_of(new))
    is_shared = gone and gone <= golden_files.shared_paragraphs(reviewed)
    title = f"{name}: the page is the reviewed one, what it shares differs:" if is_shared else f"{name} differs:"
    diff = difflib.unified_diff(old.splitlines(), new.splitlines(), "reviewed", "generated", n=1, lineterm="")
    return "\n".join([title, *itertools.islice(diff, 40)])


def test_a_change_is_shown_and_placed() -> None:
    """Two kinds of kernels share a prelude; each has a page of its own."""
    prelude, page, other = "int clamp() {\n    return 1;\n}", "int page;", "int other;"
    reviewed = {"a-sm_80.cu": f"// a\n\n{prelude}\n\n{page}\n", "b-sm_80.cu": f"// b\n\n{prelude}\n\n{other}\n"}
    shown = difference("a-sm_80.cu", reviewed, reviewed["a-sm_80.cu"].replace("return 1", "return 2"))
    assert shown.startswith("a-sm_80.cu: the page is the reviewed one, what it shares differs:\n--- reviewed")
    assert shown.endswith("\n-    return 1;\n+    return 2;\n }")
    shown = difference("a-sm_80.cu", reviewed, reviewed["a-sm_80.cu"].replace("page", "sheet"))
    assert shown.startswith("a-sm_80.cu differs:\n--- reviewed")
    assert shown.endswith("\n-int page;\n+int sheet;")


def test_files_hold_every_byte(tmp_path: Path) -> None:
    """Constants, variants of a paragraph, two blank lines, and a case that is written whole."""
    long = "struct Loader {\n" + "".join(f"    int line_{number};\n" for number in range(12)) + "};"
    constants = "// The problem.\nconstexpr int C = {};\nconstexpr bool PADDED = true;  // {} windows"
    sources = {
        golden_files.WHOLE[0]: f"// simt\n\n{constants.format(64, 'some')}\n\n{long}\n",
        "simt-b-sm_80.cu": f"// b\n\n{constants.format(32, 'some')}\n\n\n{long.replace('line_3', 'third')}\n",
        "mma-c-gfx942.hip": f"// c\n\n{constants.format(32, 'all')}\n\n\n{long.replace('    int line_11;', '')}\n",
    }
    golden_files.write(sources, tmp_path)
    assert golden_files.read(tmp_path) == sources
    (tmp_path / "pages" / "stale.cu").write_text("")
    golden_files.write(sources, tmp_path)
    assert not (tmp_path / "pages" / "stale.cu").exists()


def test_the_folder_holds_the_cases_and_nothing_else(reviewed: Mapping[str, str]) -> None:
    assert list(reviewed) == list(CASES), REMEDY
    files = {golden_files.FOLDER / file: text for file, text in golden_files.files_of(reviewed).items()}
    assert golden_files.written_files() == set(files), REMEDY
    changed = [path.name for path, text in files.items() if path.read_bytes().decode() != text]
    assert not changed, f"{changed} were not written by this test; {REMEDY}"


def test_the_readme_lists_the_whole_sources() -> None:
    listed = re.findall(r"^\| `(\S+)` \|", (golden_files.FOLDER / "README.md").read_text(), re.M)
    assert listed == list(golden_files.WHOLE)


def test_warpgroups_are_told_what_the_table_spells(reviewed: Mapping[str, str]) -> None:
    w = WGMMA_M64K32
    table = {w.spell(n, a_type, b_type) for n in w.widths for a_type in w.a_types for b_type in w.b_types}
    texts = [text for name, text in reviewed.items() if re.fullmatch(r"fused-.*\.cu", name)]
    told = {name for text in texts for name in re.findall(r'"(wgmma\.mma_async\S+) ', text)}
    assert told
    assert told <= table


def test_between_them_every_matrix_instruction_and_every_role() -> None:
    every = [plan_of(name) for name in CASES]
    plans = [plan for plan in every if isinstance(plan, MmaPlan)]
    atoms = [plan.shape.atom for plan in plans] + [plan.atom for plan in every if isinstance(plan, MatMulMmaPlan)]
    assert {atom.instruction.name for atom in atoms} == {i.name for t in TARGETS.values() for i in t.instructions}
    for role, values in {
        "loader": {"async", "registers", "buffers"},
        "combine": {"none", "scratch", "cluster"},
        "schedule": {"tile", "persist"},
        "stream_k": {False, True},
        "split_last_wave": {False, True},
        "store": {"direct", "staged"},
        "prefetch_fragments": {False, True},
        "gemm": {False, True},
        "taps_first": {False, True},
        "gathers_x": {False, True},
        "gathers_w": {False, True},
    }.items():
        assert {getattr(plan.roles, role) for plan in plans} == values, role
    assert {plan.target.vendor for plan in plans} == {"nvidia", "amd", "cpu"}
    assert {plan.problem.layout for plan in plans} == {"nhwc", "nchw"}
