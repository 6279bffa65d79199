"""The generated text: its identity, and that a reader who does not know the generator can use it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mostly_slow import mostly_slow
from random_fused import fused_plan, fused_problems
from random_problems import problems

from qconv import Conv2d, generator
from qconv.generator import Plan, Source
from qconv.generator.source import source_digest
from qconv.ops.registry import parse
from qconv.targets.target import TARGETS, Target

MOST_COLUMNS = 110


def drawn(target: Target) -> list[Plan]:
    counts = {2: 10, 3: 4} if target.instructions else {}
    chains = [chain for layers, count in counts.items() for chain in fused_problems(5, count, target, layers)]
    return [
        *(generator.default(problem, target) for problem in problems(seed=5, count=12)),
        *(fused_plan(chain, target, index) for index, chain in enumerate(chains)),
    ]


# One target per generation that has its own pages.
FAST = {"sm_80", "sm_90a", "sm_100a", "gfx942", "gfx1030", "gfx1201", "cpu", "cpu.sm_75"}


@pytest.fixture(scope="module", params=mostly_slow(TARGETS, FAST))
def rendered(request: pytest.FixtureRequest) -> list[tuple[Plan, Source]]:
    return [(plan, generator.render(plan)) for plan in drawn(TARGETS[request.param])]


@pytest.mark.turns
def test_the_digest_is_of_the_code(rendered: list[tuple[Plan, Source]]) -> None:
    for plan, source in rendered:
        launches = [launch for kernel in plan.kernels for launch in kernel.launches]
        assert source.digest == source_digest(source.text, launches)
        assert len(source.digest) >= 32
        assert source.suffix == {"nvidia": ".cu", "amd": ".hip", "cpu": ".cpp"}[plan.target.vendor]
        assert generator.render(plan) == source
    assert len({source.digest for _, source in rendered}) == len(rendered)


@pytest.mark.slow
def test_the_bytes_are_the_same_in_another_process() -> None:
    """With another seed of Python's hashes, at another time, in another folder and locale."""
    keys = [str(problem) for problem in problems(seed=5, count=6)]
    program = (
        "import sys\nfrom qconv import generator\nfrom qconv.ops.registry import parse\n"
        "from qconv.targets.target import TARGETS\n"
        "for key in sys.argv[1:]:\n    for name in ('sm_90a', 'gfx1100', 'cpu'):\n"
        "        print(generator.render(generator.default(parse(key), TARGETS[name])).digest)\n"
    )
    answers = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC+{seed}", "LC_ALL": "C"}
        command = [sys.executable, "-c", program, *keys]
        answers.append(
            subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=True).stdout
        )
    here = [
        generator.render(generator.default(parse(key), TARGETS[name])).digest
        for key in keys
        for name in ("sm_90a", "gfx1100", "cpu")
    ]
    assert [answer.split() for answer in answers] == [here, here]


@pytest.mark.turns
def test_nothing_of_this_machine_or_this_day_is_in_it(rendered: list[tuple[Plan, Source]]) -> None:
    paths = (os.getcwd(), str(Path.home()), str(Path(generator.__file__).parent), "/tmp", "/usr", "site-packages")
    for _, source in rendered:
        assert not [path for path in paths if len(path) > 1 and path in source.text]
        assert not re.search(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}:\d{2}", source.text)


@pytest.mark.turns
def test_it_is_printable_text_of_at_most_110_columns(rendered: list[tuple[Plan, Source]]) -> None:
    for plan, source in rendered:
        assert source.text.isascii()
        assert source.text.endswith("}\n")
        assert not re.search(r"[\t\r\f\v]| +$|\n\n\n", source.text, re.MULTILINE)
        wide = [line for line in source.text.splitlines() if len(line) > MOST_COLUMNS]
        assert not wide, f"{plan.problem}: {wide[0]}"


def test_a_long_key_is_wrapped() -> None:
    problem = parse(
        "conv2d:n=10000:h=100:w=1:c=1:k=1:r=100:s=1:stride=1000000,1000000:dilation=1,1000000"
        ":pad=100,100,100,100:x_type=uint8:w_type=uint8:out_type=uint8"
        ":per_channel:x_zero_point:w_zero_point:y_zero_point:bias=float32:activation=relu6"
    )
    text = generator.render(generator.default(problem, TARGETS["sm_75"])).text
    assert max(map(len, text.splitlines())) <= MOST_COLUMNS
    comment = "".join(line.removeprefix("//").strip() for line in text.splitlines()[:8])
    assert str(problem) in comment


@pytest.mark.turns
def test_no_template_is_left_in_it(rendered: list[tuple[Plan, Source]]) -> None:
    for _, source in rendered:
        for mark in ("//%", "${", "<%", "%>", "<#", "#>", "{#", "jinja", "None", "True", "False", "Undefined"):
            assert mark not in source.text
        assert not re.search(r"\{%(?!\d)", source.text)  # excludes {%0, an operand of PTX


@pytest.mark.turns
def test_it_needs_nothing_from_disk(rendered: list[tuple[Plan, Source]]) -> None:
    for _, source in rendered:
        assert not re.search(r"^\s*#\s*(include|import|embed)", source.text, re.MULTILINE)
        assert "__has_include" not in source.text


@pytest.mark.turns
def test_the_header_says_the_problem_the_config_and_the_launch(rendered: list[tuple[Plan, Source]]) -> None:
    for plan, source in rendered:
        header = source.text[: source.text.index("\nconstexpr")]
        assert str(plan.problem) in re.sub(r":\n//\s+", ":", header)
        assert str(plan.config) in re.sub(r"\n//\s{9,}", " ", header)
        assert re.search(rf"^// target +{plan.target.name}$", header, re.MULTILINE)
        for launch in plan.launches:
            grid = "x".join(map(str, launch.grid))
            assert f"{launch.kernel}<<<{grid}, {launch.threads}, {launch.smem_bytes} B>>>" in header
            kernel = rf'extern "C" __global__ void [^\n]*\n?{launch.kernel}\(const Arguments args\)'
            assert re.search(kernel, source.text)


def test_the_header_says_the_math() -> None:
    key = "conv2d:n=1:h=4:w=4:c=4:k=4:r=1:s=1:x_type=uint8:w_type=int8"
    full = f"{key}:out_type=uint8:per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6"
    text = generator.render(generator.default(parse(full), TARGETS["cpu"])).text
    assert "acc = sum over r, s, c of (x - x_zero) * (w - w_zero[k]), in int32" in text
    assert "clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8" in text
    text = generator.render(generator.default(parse(f"{key}:out_type=int32"), TARGETS["cpu"])).text
    assert "acc = sum over r, s, c of x * w, in int32" in text
    assert "y   = acc, as int32" in text


def test_constants_are_those_of_the_problem() -> None:
    problem = Conv2d(2, 9, 7, 6, 12, 3, 2, stride=(2, 1), dilation=(1, 3), pad=(1, 0, 2, 1), groups=3)
    text = generator.render(generator.default(problem, TARGETS["cpu"])).text
    constants = dict(re.findall(r"^constexpr \w+ (\w+) = (\w+);", text, re.MULTILINE))
    said = {
        "IN_H": "9", "IN_W": "7", "C": "6", "C_GROUP": "2", "OUT_H": "5", "OUT_W": "5", "K": "12", "K_GROUP": "4",
        "S": "2", "STRIDE_H": "2", "STRIDE_W": "1", "DILATION_H": "1", "DILATION_W": "3", "PAD_TOP": "1",
        "PAD_LEFT": "0", "PIXELS": "50", "REDUCTION": "12", "X_SIGNED": "true",
    }  # fmt: skip
    assert said.items() <= constants.items()
