"""Generated sources as they were last reviewed: a refactor leaves them as they are, and a change of kernels shows here
as a diff."""

from __future__ import annotations

import difflib
import itertools
import re
from pathlib import Path

import pytest
from golden_cases import CASES, plan_of

from qconv import generator
from qconv.generator.families.mma.plan import MmaPlan
from qconv.targets.instruction_tables import WGMMA_M64K32
from qconv.targets.target import TARGETS

FOLDER = Path(__file__).parent.parent / "golden"
REMEDY = (
    "to accept what is generated now: pytest tests/generator/test_golden.py --regenerate-golden, then read git diff"
)


@pytest.mark.parametrize("name", CASES)
def test_the_source_is_the_reviewed_one(name: str, request: pytest.FixtureRequest) -> None:
    source = generator.render(plan_of(name))
    path = FOLDER / name
    assert path.suffix == source.suffix
    if request.config.getoption("--regenerate-golden"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(source.text, newline="")
    assert path.exists(), f"{path} is missing; {REMEDY}"
    reviewed = path.read_bytes().decode()
    if reviewed != source.text:
        diff = difflib.unified_diff(
            reviewed.splitlines(), source.text.splitlines(), "reviewed", "generated", n=1, lineterm=""
        )
        pytest.fail("\n".join([f"{name} differs:", *itertools.islice(diff, 40), REMEDY]), pytrace=False)


def test_warpgroups_are_told_what_the_table_spells() -> None:
    w = WGMMA_M64K32
    table = {w.spell(n, a_type, b_type) for n in w.widths for a_type in w.a_types for b_type in w.b_types}
    texts = [path.read_text() for path in FOLDER.glob("fused-*.cu")]
    told = {name for text in texts for name in re.findall(r'"(wgmma\.mma_async\S+) ', text)}
    assert told
    assert told <= table


def test_between_them_every_matrix_instruction_and_every_role() -> None:
    plans = [plan for name in CASES if isinstance(plan := plan_of(name), MmaPlan)]
    assert {plan.shape.atom.instruction.name for plan in plans} == {
        i.name for t in TARGETS.values() for i in t.instructions
    }
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


def test_there_are_no_other_files() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(CASES), REMEDY
