"""The proof that a refactor changed no machine code notices changes, and ignores renames."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import same_code
import shipped_digests
from golden_cases import plan_of
from revisions import ROOT, WORKING_TREE, Revision
from same_code import CODE, DIFFERENT, TEXT, UNKNOWN, Verdict, back, compare, renamed
from shipped_digests import Measured

from qconv import generator
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.targets.target import TARGETS
from qconv.tune_db.text import parse

# A function of the source, and a change of one instruction.
KERNELS = {
    "elementwise-quantize-channel-sm_80.cu": ("round_small", ("-128.0f, 127.0f", "-128.0f, 126.0f")),
    "gemv-everything-gfx1100.hip": ("round_small", ("LARGEST = 255.0f", "LARGEST = 254.0f")),
    "gemv-bytes-cpu.cpp": ("round_small", ("a > b ? a : b", "a < b ? a : b")),
}


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a kernel's name, its case, and a revision's answer to it."""
    plan = plan_of(request.param)
    try:
        compiler_for(plan.target)
    except CompileError as error:
        pytest.skip(str(error))
    if plan.target.vendor == "amd" and shutil.which("llvm-objdump-19") is None:
        pytest.skip("no llvm-objdump-19 here")
    source = generator.render(plan)
    launches = [{"kernel": each.kernel, "shape": [*each.grid, each.threads, each.smem_bytes]} for each in plan.launches]
    answer = {
        "digest": source.digest,
        "kernels": [{"text": source.text, "suffix": source.suffix, "launches": launches}],
    }
    return request.param, {"name": request.param, "target": plan.target.name}, answer


def changed(answer: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    (kernel,) = answer["kernels"]
    assert old in kernel["text"]
    launches = [each | {"kernel": each["kernel"].replace(old, new)} for each in kernel["launches"]]
    return answer | {"kernels": [kernel | {"text": kernel["text"].replace(old, new), "launches": launches}]}


@pytest.mark.turns
def test_words_change_nothing_and_arithmetic_does(kernel: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    name, case, answer = kernel
    function, (old, new) = KERNELS[name]
    assert compare(case, answer, answer) == Verdict(case, TEXT)
    assert compare(case, answer, changed(answer, "\n\n", "\n\n// A line more.\n\n")) == Verdict(case, CODE)
    called = answer["kernels"][0]["launches"][0]["kernel"]
    other_names = changed(changed(answer, called, f"{called}_in_other_words"), function, "a_to_the_nearest")
    assert compare(case, answer, other_names) == Verdict(case, CODE)
    unused = changed(answer, "\n\nnamespace tile {", "\nconstexpr int UNUSED[] = {1, 2};\n\nnamespace tile {")
    assert compare(case, answer, unused) == Verdict(case, CODE)
    planted = compare(case, answer, changed(answer, old, new))
    assert planted.kind == DIFFERENT
    assert "  ->  " in planted.says


def test_another_launch_of_the_same_code_differs(kernel: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    _, case, answer = kernel
    (source,) = answer["kernels"]
    launches = [each | {"shape": [7, *each["shape"][1:]]} for each in source["launches"]]
    assert compare(case, answer, {"kernels": [source | {"launches": launches}]}).kind == DIFFERENT


def test_what_is_refused_by_one_revision_differs() -> None:
    case = {"name": "a case", "target": "cpu"}
    refused, served = {"refused": "too large"}, {"kernels": []}
    assert compare(case, refused, refused).kind == TEXT
    assert compare(case, refused, served).kind == compare(case, served, refused).kind == DIFFERENT


def test_where_nothing_compiles_only_words_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CompileError("no compiler here")

    monkeypatch.setattr(same_code, "listing", refuse)
    case = {"name": "a case", "target": "cpu"}
    one, worded, other = (
        {"kernels": [{"text": text, "suffix": ".cpp", "launches": []}]} for text in ("int a;", "int  a; // b", "int b;")
    )
    assert compare(case, one, worded).kind == CODE
    assert compare(case, one, other).kind == UNKNOWN


def test_configs_are_asked_for_in_the_words_of_each_revision() -> None:
    names = {"mma": "matrix", "mma.split_last_wave": "last", "simt.pipeline_stages": "steps"}
    inner = {"family": "mma", "split_last_wave": 1, "pipeline_stages": 2}
    case = {
        "target": "cpu",
        "config": {"family": "unfused", "first": inner, "second": {"family": "simt", "pipeline_stages": 3}},
    }
    new = renamed(case, names)
    assert new["config"]["first"] == {"family": "matrix", "last": 1, "pipeline_stages": 2}
    assert new["config"]["second"] == {"family": "simt", "steps": 3}
    assert renamed(new, back(names)) == case


needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")


@pytest.mark.slow
@needs_git
def test_a_revision_answers_by_its_own_code(tmp_path: Path) -> None:
    plans = [plan_of(name) for name in random.Random(7).sample(list(KERNELS), 2)]
    cases = [
        {"problem": str(plan.problem), "config": plan.config.as_dict(), "target": plan.target.name} for plan in plans
    ]
    revision = Revision(WORKING_TREE, tmp_path)
    page = next(iter((tmp_path / "templates" / "prelude").glob("*.j2")))
    assert page.read_text() == (ROOT / page.relative_to(tmp_path)).read_text()
    assert [answer["digest"] for answer in revision.answers(cases)] == [generator.render(plan).digest for plan in plans]
    for file in (tmp_path / "templates" / "prelude").glob("*.j2"):
        file.write_text(file.read_text() + "\nint planted;\n")
    for answer in revision.answers(cases):
        assert "int planted;" in answer["kernels"][0]["text"]
    assert "refused" in revision.answers([cases[0] | {"problem": "conv2d:n=1"}])[0]


@pytest.mark.slow
@needs_git
def test_a_row_whose_source_nobody_renders_keeps_its_digest(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(iter(sorted(shipped_digests.SHIPPED.glob("*.json"))))
    row = parse(path.read_text(), path.name)[0]
    plan = generator.plan(row.problem, row.config, TARGETS[row.target])
    current, lost = replace(row, digest=generator.render(plan).digest), replace(row, digest="0" * 32)
    current, lost = Measured.of(current), Measured.of(lost)
    assert shipped_digests.proved([current], [], jobs=1) == {current: current.digest}
    assert shipped_digests.proved([lost], [WORKING_TREE], jobs=1) == {}
    assert "1 kernels, 0 of today's source; of 0 of the others" in capsys.readouterr().out


def test_only_the_toolchain_that_was_measured_proves_something(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(iter(sorted(shipped_digests.SHIPPED.glob("*.json"))))
    row = parse(path.read_text(), path.name)[0]
    kernel = Measured.of(row)
    case = shipped_digests.case_of(1, kernel)

    class Other:
        toolchain = "another"

    monkeypatch.setattr(shipped_digests, "compiler_for", lambda target: Other)
    assert shipped_digests.is_shown(kernel, Verdict(case, TEXT))
    assert not shipped_digests.is_shown(kernel, Verdict(case, CODE))
    assert shipped_digests.is_shown(replace(kernel, toolchain="another"), Verdict(case, CODE))
    assert not shipped_digests.is_shown(kernel, Verdict(case, DIFFERENT))


def test_every_kernel_of_a_result_is_found() -> None:
    config, one = {"family": "simt"}, {"problem": "p", "config": {"family": "simt"}, "digest": "d"}
    several = {"configs": {"q": config, "now": config}, "digests": {"q": "e", "now": "f"}, "problems": {"now": "r"}}
    document = {"device": {"target": "sm_90a"}, "toolchain": "nvrtc 13.0", "rows": [one, several, {"name": "none"}]}
    found = [(kernel.problem, kernel.digest) for kernel in shipped_digests.recorded(document)]
    assert found == [("p", "d"), ("q", "e"), ("r", "f")]
