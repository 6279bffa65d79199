"""The text of compiled kernels, for every vendor whose compiler and disassembler are here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from qconv import Conv2d, generator
from qconv.device import disassembly
from qconv.device.compile import compiler_ahead
from qconv.device.disassembly import Form, text_of
from qconv.errors import CompileError
from qconv.targets.target import target

PROBLEM = Conv2d(1, 6, 6, 8, 8, 3, 3)


def text(name: str, form: Form) -> str:
    plan = generator.default(PROBLEM, target(name))
    return text_of(generator.render(plan), plan, form)


@pytest.mark.parametrize(
    ("name", "form", "says"),
    [
        ("sm_80", "ptx", (".target sm_80", ".visible .entry conv2d")),
        ("sm_80", "sass", ("EXIT", "LDG")),
        ("gfx90a", "isa", ("s_endpgm", "v_")),
        ("cpu", "isa", ("retq", "conv2d")),
    ],
)
def test_a_kernel_has_the_forms_of_its_vendor(name: str, form: Form, says: tuple[str, ...]) -> None:
    try:
        compiler_ahead(target(name))
    except CompileError as missing:
        pytest.skip(str(missing))
    if form == "isa" and not any(map(shutil.which, disassembly.OBJDUMPS)):
        pytest.skip("no llvm-objdump")
    shown = text(name, form)
    assert all(word in shown for word in says)


@pytest.mark.parametrize(
    ("name", "form", "instead"), [("cpu", "ptx", "isa"), ("gfx90a", "sass", "isa"), ("sm_80", "isa", "ptx, sass")]
)
def test_a_form_of_another_vendor_is_refused(name: str, form: Form, instead: str) -> None:
    with pytest.raises(ValueError, match=f"{form} is not a form of kernels for {name}: give {instead}, or source"):
        text(name, form)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    monkeypatch.setattr(disassembly.metadata, "files", lambda name: None)
    with pytest.raises(CompileError, match="SASS needs nvdisasm; install it"):
        disassembly._nvdisasm()
    with pytest.raises(CompileError, match="machine code needs llvm-objdump; install it"):
        disassembly._objdump()
