"""Plans derive everything from the element types, and a family without a type says so: a type of two bytes and its
instructions are planted, and removed again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from qconv import Conv2d, Quantization, generator
from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.generator import Config
from qconv.generator.convolution import load_bytes, why_not_bytes
from qconv.generator.families import simt
from qconv.generator.families.mma.config import Mma
from qconv.generator.families.mma.plan import MmaPlan
from qconv.generator.families.simt import Simt, SimtPlan
from qconv.problem.chain import FusedConv2d
from qconv.targets.instruction import Dim, Fragment, MatrixInstruction
from qconv.targets.instruction_tables import DP4A, MMA_M16N8K32, TCGEN05_M128K32
from qconv.targets.target import TARGETS, Target


def of_two_bytes() -> MatrixInstruction:
    """Return an instruction with the lanes of m16n8k32 and half as many elements of twice the size."""
    lane, pair = Dim(4, "k", 2), Dim(2, "k", 1)
    return replace(
        MMA_M16N8K32,
        name="mma_m16n8k16",
        file="mma_m16n8k32",
        k=16,
        a_types=("int16",),
        b_types=("int16",),
        a=Fragment("m", "k", (lane, Dim(8, "m", 1)), (pair, Dim(2, "m", 8), Dim(2, "k", 8)), element_bits=16),
        b=Fragment("k", "n", (lane, Dim(8, "n", 1)), (pair, Dim(2, "k", 8)), element_bits=16),
    )


@dataclass(frozen=True)
class Planted:
    target: Target

    def like(self, problem: Conv2d) -> Conv2d:
        """Return the same problem with elements of two bytes."""
        return replace(problem, quantization=replace(problem.quantization, x_type="int16", w_type="int16"))


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    """Plant an int16 of few values, whose products are summed in int32, and its instructions beside those of bytes."""
    few = replace(ELEMENT_TYPES["int16"], limits=(-100, 100), sums="int32", short="s16")
    monkeypatch.setitem(ELEMENT_TYPES, few.name, few)
    hopper = TARGETS["sm_90a"]
    dot = replace(DP4A, name="dp2a", file="dp4a", a_types=("int16",), b_types=("int16",))
    generation = replace(hopper.generation, dots=(DP4A, dot), instructions=(*hopper.instructions, of_two_bytes()))
    # No GPU has both: each family of bytes finds its instruction here.
    return Planted(replace(hopper, generation=replace(generation, tensor_memory=TCGEN05_M128K32)))


SIMT = Simt(tile_m=32, tile_n=32, tile_k=32, thread_m=4, thread_n=4, pipeline_stages=2)
MMA = Mma(
    instruction=0, tile_m=64, tile_n=64, tile_k=64, warp_m=32, warp_n=32, pipeline_stages=3, prefetch_fragments=1,
    split=1, split_last_wave=0, persist=0, stream_k=0, tile_swizzle_width=1, staged=0,
)  # fmt: skip
PROBLEM = Conv2d(1, 28, 28, 64, 64, 3, 3, pad=1)


def of_simt(problem: Conv2d, target: Target, config: Simt = SIMT) -> SimtPlan:
    made = generator.plan(problem, config, target)
    assert isinstance(made, SimtPlan)
    return made


def of_mma(problem: Conv2d, target: Target, config: Mma) -> MmaPlan:
    made = generator.plan(problem, config, target)
    assert isinstance(made, MmaPlan)
    return made


def constant(plan: SimtPlan | MmaPlan, name: str) -> int:
    return next(c.value for group in plan.constants.values() for c in group if c.name == name)


def test_simt_counts_the_bytes_of_its_elements(planted: Planted) -> None:
    byte, two = of_simt(PROBLEM, planted.target), of_simt(planted.like(PROBLEM), planted.target)
    # A step has a fixed number of bytes: half as many elements, and twice as many steps.
    assert (two.steps, two.smem_bytes) == (2 * byte.steps, byte.smem_bytes)
    assert generator.cost(two) > 1.5 * generator.cost(byte)
    assert two.problem.io_bytes - two.problem.pixels * 64 == 2 * (byte.problem.io_bytes - byte.problem.pixels * 64)
    assert two.aliases == byte.aliases | {"X": "int16", "W": "int16"}


@pytest.mark.parametrize(("c", "byte", "two"), [(64, 16, 16), (8, 8, 16), (4, 4, 8), (2, 1, 4), (6, 1, 4), (3, 1, 2)])
def test_simt_loads_what_rows_of_these_elements_allow(planted: Planted, c: int, byte: int, two: int) -> None:
    problem = Conv2d(1, 28, 28, c, 64, 3, 3, pad=1)
    config = replace(SIMT, tile_k=16) if c < 4 else SIMT
    narrow, wide = of_simt(problem, planted.target, config), of_simt(planted.like(problem), planted.target, config)
    assert (narrow.alignment["x"], wide.alignment["x"]) == (byte, two)
    assert constant(wide, "X_BYTES") == two
    assert narrow.alignment["y"] == wide.alignment["y"]


def test_mma_counts_the_bytes_of_its_elements(planted: Planted) -> None:
    byte = of_mma(PROBLEM, planted.target, MMA)
    two = of_mma(planted.like(PROBLEM), planted.target, MMA)
    assert (two.shape.steps, two.smem_bytes) == (2 * byte.shape.steps, byte.smem_bytes)
    assert [constant(two, name) for name in ("ATOM_K", "K_BLOCK", "TILE_K")] == [32, 32, 64]
    assert generator.cost(two) > 1.2 * generator.cost(byte)
    # A row of 64 channels is one step if an element is a byte: taps come first only if a row has several steps.
    assert (byte.roles.taps_first, two.roles.taps_first) == (False, True)


@pytest.mark.parametrize(("c", "byte", "two"), [(48, 16, 16), (8, 8, 16), (2, 1, 4), (3, 1, 2)])
def test_mma_copies_what_rows_of_these_elements_allow(planted: Planted, c: int, byte: int, two: int) -> None:
    problem = Conv2d(1, 28, 28, c, 64, 5, 5, pad=2)
    config = replace(MMA, tile_k=32, pipeline_stages=2)
    narrow = of_mma(problem, planted.target, config)
    wide = of_mma(planted.like(problem), planted.target, config)
    assert (narrow.alignment["x"], wide.alignment["x"]) == (byte, two)
    assert (narrow.roles.gathers_x, wide.roles.gathers_x) == (byte < 4, two < 4)


def test_sums_that_no_instruction_has_are_refused(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ELEMENT_TYPES, "int16", replace(ELEMENT_TYPES["int16"], sums="float64"))
    problem = planted.like(replace(PROBLEM, n=2))  # with another key: results are cached by key
    says = "sm_90a has no matrix instruction that multiplies int16 by int16 with sums in float64"
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, MMA, planted.target)
    with pytest.raises(
        Infeasible, match="int16 by int16 with sums in float64: sm_90a has no dot product of these types"
    ):
        generator.plan(problem, SIMT, planted.target)


def test_the_pages_of_simt_and_mma_say_the_type(planted: Planted) -> None:
    problem = planted.like(PROBLEM)
    for plan in (of_simt(problem, planted.target), of_mma(problem, planted.target, MMA)):
        text = generator.render(plan).text
        assert "using X = short;" in text
        assert "using Bits = unsigned short;" in text
        assert "using Sum = int;" in text


BYTES_ONLY = {"depthwise", "direct", "stem", "gemv", "pointwise", "wgmma", "tcgen05"}
OWN_INSTRUCTION = {"wgmma": "wgmma_m64k32", "tcgen05": "tcgen05_m128k32"}
SERVED = {
    "depthwise": Conv2d(1, 28, 28, 64, 64, 3, 3, pad=1, groups=64),
    "direct": Conv2d(1, 28, 28, 64, 64, 3, 3, pad=1, groups=16),
    "stem": Conv2d(1, 32, 32, 4, 64, 3, 3, pad=1),
    "gemv": Conv2d(1, 1, 1, 256, 64, 1, 1),
    "pointwise": Conv2d(1, 28, 28, 64, 64, 1, 1),
    "wgmma": Conv2d(1, 14, 14, 128, 64, 3, 3, pad=1),
    "tcgen05": Conv2d(1, 14, 14, 128, 64, 3, 3, pad=1),
}


@pytest.mark.parametrize("family", sorted(BYTES_ONLY))
def test_a_family_of_bytes_refuses_others_by_name(planted: Planted, family: str) -> None:
    of = generator.FAMILIES[family]
    config = next(c for c in of.configs(SERVED[family], planted.target) if feasible(SERVED[family], c, planted.target))
    problem = planted.like(SERVED[family])
    says = f"int16 by int16: {OWN_INSTRUCTION.get(family)} does not multiply these"
    if family not in OWN_INSTRUCTION:
        says = "int16 by int16 with sums in int32: this family multiplies integers of 8 bits"
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, config, planted.target)
    assert not list(of.configs(problem, planted.target))


def feasible(problem: Conv2d, config: Config, target: Target) -> bool:
    try:
        generator.plan(problem, config, target)
    except Infeasible:
        return False
    return True


def test_a_chain_refuses_them_in_depthwise_layers(planted: Planted) -> None:
    depthwise = Conv2d(1, 28, 28, 64, 64, 3, 3, pad=1, groups=64)
    bytes_then_bytes = FusedConv2d(depthwise, Conv2d(1, 28, 28, 64, 64, 1, 1))
    fused = generator.FAMILIES["fused"]
    config = next(fused.configs(bytes_then_bytes, planted.target))
    shorts_then_bytes = replace(bytes_then_bytes, first=planted.like(bytes_then_bytes.first))
    with pytest.raises(
        Infeasible, match=r"int16 by int16 with sums in int32: this family multiplies integers of 8 bits"
    ):
        generator.plan(shorts_then_bytes, config, planted.target)


def test_real_sums_are_added_up_by_one_block(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ELEMENT_TYPES, "int16", replace(ELEMENT_TYPES["int16"], sums="float32"))
    real = replace(of_two_bytes(), sum_type="float32")
    target = replace(
        planted.target, generation=replace(planted.target.generation, instructions=(real,), features=frozenset())
    )
    config = replace(MMA, pipeline_stages=2, prefetch_fragments=0)
    few = planted.like(Conv2d(1, 7, 7, 512, 64, 3, 3, pad=1))
    assert of_mma(few, target, config).aliases["Sum"] == "float32"
    with pytest.raises(Infeasible, match="split=2: blocks add up 32-bit integers, whose order is all the same"):
        generator.plan(few, replace(config, split=2), target)


def test_nothing_is_left_of_the_planted_type() -> None:
    assert ELEMENT_TYPES["int16"].sums is None
    with pytest.raises(ValueError, match="x_type='int16' is not one of int8, uint8"):
        Quantization(x_type="int16")


def test_copies_are_as_wide_as_rows_of_elements_allow() -> None:
    widths = {name: [load_bytes(n, ELEMENT_TYPES[name]) for n in (1, 2, 3, 4, 6, 8, 16)] for name in ("int8", "int16")}
    assert widths == {"int8": [1, 1, 1, 4, 1, 8, 16], "int16": [2, 4, 2, 8, 4, 16, 16]}


def test_bytes_with_sums_of_32_bits_are_what_families_of_bytes_serve() -> None:
    for x_type in ("int8", "uint8"):
        assert why_not_bytes(Conv2d(1, 4, 4, 4, 4, 1, 1, quantization=Quantization(x_type=x_type))) is None


# Modules in which a type is intended, with the reason.
TYPE_IS_THE_FACT = {
    "convolution.py": {"np.float32"},  # the terms of a polynomial are numbers of the epilogue's arithmetic
    "forest.py": {"np.float64", "np.int64"},  # predictions about kernels, not their elements
}
NAMED = re.compile(rf"\b(?:{'|'.join(ELEMENT_TYPES)})\b")


def types_named_by(path: Path) -> set[str]:
    """Return the element types in the texts of a module and among its attributes, without comments and docstrings."""
    tree = ast.parse(path.read_text())
    said = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            named |= set(NAMED.findall(node.value))
        elif isinstance(node, ast.Attribute) and NAMED.fullmatch(node.attr):
            named.add(f"np.{node.attr}")
    return named


@pytest.mark.parametrize("path", sorted(Path(simt.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_no_module_of_the_generator_names_a_type(path: Path) -> None:
    """Types are values: their properties are read from them."""
    assert types_named_by(path) == TYPE_IS_THE_FACT.get(path.name, set())


def test_a_named_type_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Of int8."""\nimport numpy as np\nx = "int32_bias", f"sums in int32 of {np.uint8}"\n')
    assert types_named_by(module) == {"int32", "np.uint8"}


def test_the_planted_config_has_all_fields() -> None:
    assert {f.name for f in fields(MMA)} == set(generator.FAMILIES["mma"].choices)
