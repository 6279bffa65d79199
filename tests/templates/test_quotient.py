"""The replacement of a division, `tile::quotient`, on every pair of significands that could expose it.

After one step the result is off by less than 2**-24 of a unit in the last place before it is rounded, so it can be
wrong only if a / b is that close to the middle of two floats. With integer significands A and B that is 2**s * A = odd
* B + k for a small k: for each B these are a few A, found by an inverse modulo B.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from qconv import Conv2d, Quantization, generator
from qconv.conversion import Quantize
from qconv.device.cpu_runtime import find_compiler
from qconv.generator import Plan
from qconv.targets.target import TARGETS

HARNESS = """
static long inverse_modulo(long a, long m) {
    long g = m, x = 0, y = 1;
    for (long b = a; b != 0;) {
        const long q = g / b, rest = g % b, z = x - q * y;
        g = b; b = rest; x = y; y = z;
    }
    return (x % m + m) % m;
}

// Pairs with b = odd * twos; returns how many differ from the division.
extern "C" long differing(long first, long last, long twos, long most, long* pairs) {
    long wrong = 0;
    for (long odd = first | 1; odd < last; odd += 2) {
        const float b = static_cast<float>(odd * twos), inverse = tile::inverse_of(b);
        for (int shift = 24; shift <= 25; ++shift) {
            const long inverted = inverse_modulo(((1L << shift) / twos) % odd, odd);
            for (long k = -most; k <= most; ++k) {
                for (long a = ((k * inverted) % odd + odd) % odd; a < 1L << 24; a += odd) {
                    if (a < 1L << 23) continue;
                    const float real = static_cast<float>(a);
                    wrong += tile::quotient(real, b, inverse) != real / b;
                    ++*pairs;
                }
            }
        }
    }
    return wrong;
}
"""


SIXTH = """
// Every significand, at exponents from `first` to `last`; and what is no usual number.
extern "C" long differing(long first, long last, long step, long, long* tried) {
    long wrong = 0;
    const auto differs = [](float a) {
        const float found = tile::flush(tile::sixth(a)), wanted = tile::flush(a / 6.0f);
        return __builtin_memcmp(&found, &wanted, 4) != 0;
    };
    for (long exponent = first; exponent <= last; exponent += step) {
        for (unsigned significand = 0; significand < 1u << 23; ++significand) {
            const unsigned bits = static_cast<unsigned>(exponent) << 23 | significand, negative = bits | 1u << 31;
            float a, b;
            __builtin_memcpy(&a, &bits, 4);
            __builtin_memcpy(&b, &negative, 4);
            wrong += differs(a) + differs(b);
            *tried += 2;
        }
    }
    return wrong + differs(0.0f) + differs(-0.0f) + differs(__builtin_inff()) + differs(-__builtin_inff());
}
"""


def compiled(plan: Plan, harness: str, folder: Path) -> ctypes._NamedFuncPointer:
    (folder / "quotient.cpp").write_text(generator.render(plan).text + harness)
    flags = ["-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([find_compiler().path, *flags, "quotient.cpp", "-o", "quotient.so"], cwd=folder, check=True)
    function = ctypes.CDLL(str(folder / "quotient.so"), mode=os.RTLD_LAZY).differing
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long] * 4 + [ctypes.POINTER(ctypes.c_long)]
    return function


@pytest.fixture(scope="module")
def differing(tmp_path_factory: pytest.TempPathFactory) -> ctypes._NamedFuncPointer:
    plan = generator.default(Quantize(1, 1, 4096), TARGETS["cpu"])
    return compiled(plan, HARNESS, tmp_path_factory.mktemp("quotient"))


# An even b has only even distances: for 2 * odd, those of odd with half the shift; with more twos, none is close
# enough.
@pytest.mark.turns
@pytest.mark.parametrize(("twos", "first"), [(1, 2**23), (2, 2**22)])
def test_a_quotient_is_a_division(differing: ctypes._NamedFuncPointer, twos: int, first: int) -> None:
    pairs = ctypes.c_long(0)
    assert differing(first, 2 * first, twos, 3, ctypes.byref(pairs)) == 0
    assert pairs.value > 20_000_000


def test_a_sixth_is_a_division_by_six(tmp_path: Path) -> None:
    problem = Conv2d(1, 4, 4, 4, 4, 1, 1, quantization=Quantization(activation="hardswish"))
    differing = compiled(generator.default(problem, TARGETS["cpu"]), SIXTH, tmp_path)
    tried = ctypes.c_long(0)
    # Denormal quotients, the end of the small ones (67 is 2**-60), about one, and the largest.
    for first, last, step in ((0, 4, 1), (66, 67, 1), (126, 128, 1), (253, 254, 1)):
        assert differing(first, last, step, 0, ctypes.byref(tried)) == 0
    assert tried.value > 150_000_000
