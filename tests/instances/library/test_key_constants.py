"""The keys of a library's problems as constants of C."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from library_cases import CASES

from qconv import Conv2d, Quantization
from qconv.conversion import Quantize
from qconv.instances.library.key_constants import constant_of, constants_text


def test_a_constant_is_the_key_in_capitals() -> None:
    problem = Conv2d(1, 14, 14, 64, 32, 1, 1, quantization=Quantization(bias="int32"))
    assert constant_of(problem) == (
        "QCONV_KEY_CONV2D_N1_H14_W14_C64_K32_R1_S1_X_TYPE_INT8_W_TYPE_INT8_OUT_TYPE_INT8_BIAS_INT32"
    )


def test_problems_have_constants_of_their_own() -> None:
    problems = {problem for _, _, problem in CASES}
    problems |= {Quantize(1, 1, 8, low=low, high=7) for low in (-5, 5)}
    names = {constant_of(problem) for problem in problems}
    assert len(names) == len(problems)
    assert all(re.fullmatch(r"QCONV_KEY_[A-Z0-9_]{1,112}", name) for name in names)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_compiler_reads_the_keys(tmp_path: Path) -> None:
    problems = [problem for _, _, problem in CASES]
    (tmp_path / "qconv_problems.h").write_text(constants_text(problems))
    lines = "".join(f"puts({constant_of(problem)});\n" for problem in problems)
    (tmp_path / "main.cpp").write_text(
        f'#include <cstdio>\n#include "qconv_problems.h"\n#include "qconv_problems.h"\nint main() {{\n{lines}}}\n'
    )
    subprocess.run(["g++", "-Wall", "-Werror", "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    run = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [str(problem) for problem in problems]
