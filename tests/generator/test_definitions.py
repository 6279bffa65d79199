"""A kernel contains the definitions of its prelude that it uses, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from qconv.dtypes import ELEMENT_TYPES
from qconv.generator.coefficients import polynomials
from qconv.generator.definitions import Paragraph, _divided, used
from qconv.generator.source import PRELUDES, _environment
from qconv.targets.target import target

ROOT = Path(__file__).parents[2]
TARGETS = ("sm_90a", "gfx942", "cpu")
TEXT = """constexpr int FIRST = 1;

namespace tile {

// Two that stand together.
__device__ int one(int a) { return a; }
__device__ int two(int a) { return a; }

// A comment of what follows, which names three() and has an empty line behind it.

template <int WORDS>
struct alignas(4 * WORDS) Words {
    unsigned word[WORDS];

    __device__ int first() { return word[0]; }
    __device__ int last() { return word[WORDS - 1]; }
};

using Pair = Words<2>;

constexpr int LENGTH = 2;

__device__ int three(int a) { return two(a); }

__device__ int pair(const Pair& of) { return of.three(LENGTH - 1); }

__device__ const char* literal() { return "three()"; }

__device__ float half(float a) { return 0.5f * a; }

__device__ double half(double a) { return 0.5 * a; }

#define TWICE(a) ((a) + (a))
__device__ int twice(int a) { return TWICE(a); }

}  // namespace tile

namespace scalar {

__device__ int thrice(int a) { return tile::three(a); }

}  // namespace scalar
"""


def names_of(own: str) -> set[str]:
    """Return the names that are defined in a kernel whose own text this is."""
    kept = used(TEXT + own)
    found = re.findall(
        r"^(?:__device__ .*?|struct alignas.*?\) |using |constexpr int |#define )(\w+)(?=\(| =| \{)", kept, re.M
    )
    return set(found) - {"FIRST"}


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ("", set()),
        ("int y = tile::one(1);", {"one", "two"}),
        ("int y = tile::three(1);", {"one", "two", "three"}),
        ("int y = scalar::thrice(1);", {"one", "two", "three", "thrice"}),
        ("tile::Words<4> y;", {"Words"}),
        ("tile::Pair y; int x = y.three();", {"Words", "Pair"}),
        ("int y = tile::pair(x);", {"Words", "Pair", "LENGTH", "pair"}),
        ("int y = tile::literal()[0];", {"literal"}),
        ("int y = tile::twice(1);", {"TWICE", "twice"}),
    ],
)
def test_a_kernel_contains_what_it_uses(own: str, names: set[str]) -> None:
    assert names_of(own) == names


def test_functions_of_doubles_are_where_doubles_are() -> None:
    assert used(TEXT + "float y = tile::half(1.0f);  // no double").count("half(") == 2
    assert used(TEXT + "double y = tile::half(1.0);").count("half(") == 3


def test_a_heading_stands_above_what_follows_it() -> None:
    comment = "// A comment of what follows"
    assert comment in used(TEXT + "tile::Pair y;")
    assert comment not in used(TEXT + "int y = tile::one(1);")


def test_empty_lines_in_braces_end_nothing() -> None:
    struct = TEXT[TEXT.index("template <int") : TEXT.index("using Pair")].rstrip()
    assert f"\n\n{struct}\n\n}}  // namespace tile" in used(TEXT + "tile::Words<4> y;")


def test_the_rest_of_the_text_stays() -> None:
    assert used(TEXT) == "constexpr int FIRST = 1;\n\n\n"
    assert used("int y = 1;\n") == "int y = 1;\n"


def prelude_of(name: str) -> tuple[Paragraph, ...]:
    plan = SimpleNamespace(target=target(name))
    page = _environment().get_template(PRELUDES[plan.target.vendor])
    text = page.render(plan=plan, wants={"tensor_memory"}, polynomials=polynomials(), spelled="tcgen05.mma")
    _, libraries, _ = _divided(text)
    return libraries["tile"]


@pytest.mark.parametrize("name", TARGETS)
def test_each_paragraph_of_a_prelude_defines_something(name: str) -> None:
    # Nobody could ask for another one.
    every = prelude_of(name)
    assert len(every) > 50
    assert [paragraph.text for paragraph in every if not paragraph.defines] == []


@pytest.mark.parametrize("name", TARGETS)
def test_somebody_uses_each_paragraph_of_a_prelude(name: str) -> None:
    pages = [path for path in (ROOT / "templates").rglob("*.j2") if "prelude" not in path.parts]
    files = [*pages, *(ROOT / "generator").rglob("*.py"), *(ROOT / "src" / "qconv").rglob("*.py")]
    named = set(re.findall(r"\w+", "\n".join(path.read_text() for path in files)))
    named |= {f"Packed{element_type.word}" for element_type in ELEMENT_TYPES.values()}
    every = prelude_of(name)
    named |= {one for paragraph in every for _, one in paragraph.uses - paragraph.defines}
    assert [paragraph.text for paragraph in every if not any(one in named for _, one in paragraph.defines)] == []
