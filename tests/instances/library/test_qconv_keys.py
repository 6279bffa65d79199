"""A library finds a kernel by any spelling of its key that Python reads, and refuses the others with a sentence."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from library_cases import CASES
from spellings import spellings

import qconv
from qconv import ConvTranspose2d, Quantization
from qconv.instances.library.table import grammar_text
from qconv.op import Problem

LIBRARY = Path(__file__).parents[3] / "instances/library"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
PROBLEMS = [problem for _, _, problem in CASES]

# Reads pairs of keys from lines; a tab is between the two, and stands for a newline in the first one.
MAIN = r"""
#include <iostream>
#include "qconv_keys.h"
namespace qconv {
namespace {
GRAMMARS
}
const Span<Grammar> grammars = {grammar_rows, sizeof grammar_rows / sizeof *grammar_rows};
}
int main() {
    for (std::string line; std::getline(std::cin, line);) {
        const size_t tab = line.rfind('\t');
        std::string asked = line.substr(0, tab);
        for (char& each : asked) each = each == '\t' ? '\n' : each;
        try {
            std::cout << qconv::Spelling(asked).names(line.substr(tab + 1).c_str()) << "\n";
        } catch (const qconv::Failure& failure) {
            std::cout << failure.text << "\n";
        }
    }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "main.cpp").write_text(MAIN.replace("GRAMMARS", grammar_text(PROBLEMS)))
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["g++", *flags, f"-I{LIBRARY}", "main.cpp", "-o", "main"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder / "main"


def asked(program: Path, pairs: list[tuple[str, Problem]]) -> list[str]:
    lines = "".join(f"{key.replace(chr(10), chr(9))}\t{problem}\n" for key, problem in pairs)
    return subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_spelling_finds_its_problem(program: Path) -> None:
    rng = random.Random(5)
    pairs = [(key, problem) for problem in PROBLEMS for key in spellings(problem, rng, 25)]
    assert len(pairs) > 20 * len(PROBLEMS)
    wrong = [pair for pair, answer in zip(pairs, asked(program, pairs), strict=True) if answer != "1"]
    assert wrong == []


def test_no_spelling_finds_another_problem(program: Path) -> None:
    """Each in turn is compared with one whose numbers, texts or flags differ, and with all others."""
    rng = random.Random(6)
    pairs = [(next(spellings(one, rng, 9)), other) for one in PROBLEMS for other in PROBLEMS if one != other]
    changed = [
        ("conv2d:n=1:h=5:w=5:c=8:k=8:r=3:s=3:pad=1", "conv2d:n=1:h=5:w=5:c=8:k=8:r=3:s=3:pad=1,1,1,2"),
        ("conv2d:n=1:h=5:w=5:c=8:k=8:r=3:s=3", "conv2d:n=1:h=5:w=5:c=8:k=8:r=3:s=3:x_zero_point"),
        ("conv2d:n=1:h=5:w=5:c=8:k=8:r=3:s=3", "conv2d:n=1:h=5:w=5:c=8:k=8:r=3:s=3:rounding=rtz"),
        ("choose:outer=1:channels=1:inner=8:rule=onnx", "choose:outer=1:channels=1:inner=8:rule=onnx:eps=2.0"),
        ("quantize:outer=1:channels=1:inner=8:low=-100", "quantize:outer=1:channels=1:inner=8:low=-10"),
        ("quantize:outer=1:channels=1:inner=8:out_type=uint8", "quantize:outer=1:channels=1:inner=8"),
        ("concat:rows=2:widths=8,8", "concat:rows=2:widths=8,8:offsets=0,1:strides=9,9"),
    ]
    pairs += [(one, qconv.parse(other)) for one, other in changed]
    assert set(asked(program, pairs)) == {"0"}


def test_a_default_may_follow_from_another_field(program: Path) -> None:
    pairs = [
        ("quantize:outer=1:channels=1:inner=8:out_type=uint8", "low=0:high=255"),
        ("choose:outer=1:channels=1:inner=8:rule=onnx", "eps=1.00"),
        ("choose:outer=1:channels=1:inner=8", "eps=1.1920929e-07:rule=torch:low=-128"),
        ("concat:rows=2:widths=8,9", "tables=0,0:offsets=0,0:strides=8,9"),
    ]
    answers = asked(program, [(f"{key}:{more}", qconv.parse(key)) for key, more in pairs])
    assert answers == ["1"] * len(pairs)


def test_a_transposed_convolution_is_that_of_its_phases(program: Path) -> None:
    rng = random.Random(7)
    pairs: list[tuple[str, Problem]] = []
    while len(pairs) < 300:
        given = {name: rng.randint(1, 9) for name in "nhwckrs"}
        given |= {"groups": rng.choice((1, 2))}
        several = {"stride": (2, 1), "dilation": (2, 1), "pad": (4, 0), "output_padding": (2, 0)}
        drawn = {name: tuple(rng.randint(least, 3) for _ in range(count)) for name, (count, least) in several.items()}
        try:
            problem = ConvTranspose2d(**given, **drawn, quantization=Quantization(bias="int32")).phases  # type: ignore[arg-type]
        except ValueError:
            continue
        fields = [f"{name}={value}" for name, value in given.items()]
        fields += [f"{name}={','.join(map(str, values))}" for name, values in drawn.items()]
        key = ":".join(["conv_transpose2d", *rng.sample(fields, len(fields)), "bias=int32"])
        assert qconv.parse(key) == problem
        pairs.append((key, problem))
    assert set(asked(program, pairs)) == {"1"}


REFUSED = {
    "conv2d:n=1:paad=1": "the key has paad, which is no field of conv2d: it has n, h, w, c, k, r, s, stride, dilation,",
    "conv2d:n=1:n=1": "the key has n twice: leave one out",
    "conv2d:n": "the key has n: n needs a value",
    "conv2d:table=1": "the key has table=1: table is a flag and takes no value",
    "conv2d:n=x": "the key has n=x: give an integer of at most ten digits",
    "conv2d:n=": "the key has n=: give an integer of at most ten digits",
    "conv2d:n=12345678901": "the key has n=12345678901: give an integer of at most ten digits",
    "conv2d:pad=1,2": "the key has pad=1,2: give one integer or 4",
    "conv2d:pad=": "the key has pad=: give an integer of at most ten digits",
    "choose:eps=few": "the key has eps=few: give a number",
    "conv2d:n=1+conv2d:m=1": "the key has m, which is no field of conv2d",
}


def test_what_python_refuses_is_refused_with_a_sentence(program: Path) -> None:
    for key in REFUSED:
        with pytest.raises(ValueError, match=r"key|field"):
            qconv.parse(key)
    answers = asked(program, [(key, PROBLEMS[0]) for key in REFUSED])
    for answer, says in zip(answers, REFUSED.values(), strict=True):
        assert answer.startswith(says)


def test_what_is_no_key_finds_nothing(program: Path) -> None:
    others = (
        "",
        "+",
        ":",
        "conv2d",
        "conv3d:n=1",
        "conv2d:n=1",
        "conv_transpose2d:n=1:h=4",
        "x" * 4000,
        "conv2d+conv2d",
    )
    assert set(asked(program, [(key, PROBLEMS[0]) for key in others])) == {"0"}


def test_a_damaged_key_is_read_as_python_reads_it(program: Path) -> None:
    """Under AddressSanitizer. The text of an expression is left alone: a library compares it as it is spelled."""
    rng = random.Random(8)
    keys = [str(problem) for problem in PROBLEMS if "do=" not in str(problem)]
    pairs: list[tuple[str, Problem]] = []
    refused: list[tuple[str, Problem]] = []
    for _ in range(3000):
        key = rng.choice(keys)
        for _ in range(rng.randint(1, 3)):
            at, more = (
                rng.randrange(len(key)),
                rng.choice((":", "=", ",", "0", "1", "-", " ", "+", "x", key[: len(key) // 3])),
            )
            key = key[:at] + rng.choice(("", more)) + key[at + rng.randint(0, 2) :]
        try:
            pairs.append((key, qconv.parse(key)))
        except ValueError:
            refused.append((key, PROBLEMS[0]))
    assert len(pairs) > 100
    assert {pair: answer for pair, answer in zip(pairs, asked(program, pairs), strict=True) if answer != "1"} == {}
    assert "1" not in asked(program, refused)
