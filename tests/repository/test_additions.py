"""CONTRIBUTING's lists of files to touch are complete: each addition is applied to a copy of the repository, where the
usual tests find it.

`additions/<name>` has the new files, and `ADDITIONS` the changes to others.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import mutate
import pytest
from mostly_slow import mostly_slow

pytestmark = pytest.mark.thirds

FILES = Path(__file__).with_name("additions")


@dataclass(frozen=True)
class Row:
    """Text that is inserted into a file, before the text `before`."""

    path: str
    text: str
    follows: str

    def put_into(self, root: Path) -> None:
        before = (root / self.path).read_text()
        assert before.count(self.follows) == 1, f"{self.path}: {self.follows!r}"
        (root / self.path).write_text(before.replace(self.follows, self.text + self.follows))


@dataclass(frozen=True)
class Addition:
    files: tuple[str, ...]  # files that make up the addition
    tests: tuple[str, ...]  # arguments of pytest in the copy
    rows: tuple[Row, ...] = ()
    lists: tuple[Row, ...] = ()  # files that only list it
    vectors: tuple[str, ...] = ()  # files with its expected values


HARDSIGMOID_NUMPY = '''def hardsigmoid(x: Array) -> Array:
    """(x + 3) / 6, no less than 0 and no more than 1, as PyTorch has it."""
    sixths = np.minimum(np.maximum(x + np.float32(3), np.float32(0)), np.float32(6))
    return sixths * (np.float32(1) / np.float32(6))


'''
HARDSIGMOID_CXX = """// (x + 3) / 6, no less than 0 and no more than 1.
__device__ __forceinline__ float hardsigmoid(float x) {
    return multiply(minimum(maximum(add(x, 3.0f), 0.0f), 6.0f), 1.0f / 6.0f);
}

"""
HARDSIGMOID = """        _curve(
            "hardsigmoid",
            hardsigmoid,
            instructions=4,
            spread=(0.6, 1.5),
            center=0.7,
            aten="hardsigmoid",
            module="Hardsigmoid",
        ),
"""

ACTIVATION = Addition(
    files=("src/qconv/arithmetic/activation.py", "templates/prelude/activation.j2"),
    rows=(
        Row("src/qconv/arithmetic/activation.py", HARDSIGMOID_NUMPY, "def leaky_relu("),
        Row("src/qconv/arithmetic/activation.py", HARDSIGMOID, '        _curve("gelu"'),
        Row("templates/prelude/activation.j2", HARDSIGMOID_CXX, "// x P(X < x) for a normally"),
        Row(
            "tests/qconv/arithmetic/test_activation.py",
            '    "hardsigmoid": Curve(lambda x: min(max(x + 3, 0), 6) / 6, 2e-7),\n',
            '    "gelu": Curve(',
        ),
    ),
    vectors=("tests/qconv/arithmetic/test_activation.py",),
    tests=(
        "tests/qconv/arithmetic/test_activation.py",
        "tests/qconv/ops/test_registry_sample.py",
        "-m",
        "not slow",
        "-k",
        "hardsigmoid and not float",
    ),
)
# The RX 7800 XT's and the RX 6600 XT's, of known generations: NVRTC 13.0 knows no architecture of NVIDIA's without a
# target.
ARCHITECTURE = Addition(
    files=("src/qconv/targets/target.py",),
    rows=(
        Row("src/qconv/targets/target.py", '    _amd("gfx1101", RDNA_3, 60, 64, 1024),\n', '    _amd("gfx1201"'),
        Row("src/qconv/targets/target.py", '    _amd("gfx1032", RDNA_2, 32, 64, 1024),\n', '    _amd("gfx1201"'),
    ),
    tests=(
        *("tests/qconv/targets/test_target.py", "tests/generator/test_compiles.py", "tests/generator/test_source.py"),
        *("-m", "not slow", "-k", "test_target or ((gfx1101 or gfx1032) and (test_source or residual or depthwise))"),
    ),
)
OP = Addition(
    files=("src/qconv/ops/subtract.py", "generator/families/subtract.py", "templates/families/subtract.j2"),
    lists=(
        Row(
            "src/qconv/ops/registry.py",
            "from qconv.ops import subtract\n",
            "from qconv.tensor_ops import argmax,",
        ),
        Row("src/qconv/ops/registry.py", "    subtract.OP,\n", "    convolution.OP,\n"),
        Row("generator/__init__.py", "    subtract,\n", "    unfused,\n"),
        Row("generator/__init__.py", "        subtract.FAMILY,\n", "        simt.FAMILY,\n"),
    ),
    vectors=("tests/check_subtract.py",),
    tests=("tests/check_subtract.py",),
)
FAMILY = Addition(
    files=("generator/families/plain.py", "templates/families/plain.j2"),
    lists=(
        Row("generator/__init__.py", "    plain,\n", "    pointwise,\n"),
        Row("generator/__init__.py", "        plain.FAMILY,\n", "        stem.FAMILY,\n"),
    ),
    vectors=("tests/check_family.py",),
    tests=("tests/check_family.py",),
)
STRATEGY = Addition(
    files=("tuner/search/strategies/shuffled.py",),
    tests=("tests/tuner/search/test_strategies.py", "-k", "shuffled or names"),
)
# The 8-bit float of gfx942, whose exponent has another bias than OCP's: the CPU device multiplies it by the products of
# floats, and CDNA 3 by an instruction like those of CDNA 4.
E4M3_FNUZ = '        ElementType("float8_e4m3fnuz", "unsigned char", "uint8_t", 1, **_real("fp8", "E4m3fnuzs")),\n'
E4M3_FNUZ_CXX = """// The elements of a word as floats: four e4m3 whose exponent's bias is 8. What would be -0 is NaN.
struct E4m3fnuzs {
    static constexpr int COUNT = 4;
    static __device__ __forceinline__ float of(unsigned word, int i) {
        const unsigned sign = word >> (8 * i) & 0x80u, magnitude = word >> (8 * i) & 0x7fu;
        const float scaled = half_to_float(static_cast<unsigned short>(sign << 8 | magnitude << 7));
        return sign != 0 && magnitude == 0 ? as_float(0x7fffffffu) : scaled * 128.0f;
    }
};

"""
E4M3_FNUZ_MATRIX = """MFMA_OF_FNUZ = (
    _mfma_of_floats("32x32x16_fp8_fp8", 32, 16, 32, ("float8_e4m3fnuz",), "", 8),
    _mfma_of_floats("16x16x32_fp8_fp8", 16, 32, 16, ("float8_e4m3fnuz",), "", 8),
)

"""
TABLES = "src/qconv/targets/instruction_tables.py"
TYPE = Addition(
    files=("src/qconv/dtypes.py", "templates/prelude/every.j2", TABLES),
    rows=(
        Row("src/qconv/dtypes.py", E4M3_FNUZ, '        ElementType("float32"'),
        Row(
            "templates/prelude/every.j2",
            E4M3_FNUZ_CXX,
            "// The elements of a 32-bit word as floats: four of OCP's e5m2",
        ),
        Row(TABLES, '("float8_e4m3fnuz",), ', '("tfloat32",), ("float16",)'),
        Row(TABLES, E4M3_FNUZ_MATRIX, "# gfx1100 follows"),
    ),
    lists=(
        Row("src/qconv/targets/generation.py", "    MFMA_OF_FNUZ,\n", "    MFMA_OF_HALVES,\n"),
        Row("src/qconv/targets/generation.py", ", *MFMA_OF_FNUZ", ")\n_BYTES_OF_CDNA_4"),
    ),
    vectors=("tests/check_type.py",),
    tests=("tests/check_type.py",),
)
ADDITIONS = {
    "activation": ACTIVATION,
    "architecture": ARCHITECTURE,
    "family": FAMILY,
    "op": OP,
    "strategy": STRATEGY,
    "type": TYPE,
}


@pytest.mark.parametrize("name", mostly_slow(ADDITIONS, {"strategy"}))
def test_an_addition_touches_the_files_that_are_said(name: str, tmp_path: Path) -> None:
    addition = ADDITIONS[name]
    new = {str(path.relative_to(FILES / name)) for path in (FILES / name).rglob("*.*") if path.is_file()}
    assert new | {row.path for row in addition.rows} == {*addition.files, *addition.vectors}
    copy = mutate.Copy(tmp_path / "copy", tmp_path / "cache")
    if new:
        shutil.copytree(FILES / name, copy.root, dirs_exist_ok=True)
    for row in (*addition.rows, *addition.lists):
        row.put_into(copy.root)
    copy.check_imports()
    status, output = copy.pytest(addition.tests)
    assert status == mutate.PASSED, output
    assert " passed" in output
    # The ledger counts skips here, not those in the copy; both leave tests of a GPU to machines that have one.
    skipped = [line for line in output.splitlines() if line.startswith("SKIPPED") and "no GPU here" not in line]
    if skipped:
        pytest.skip(skipped[0])
