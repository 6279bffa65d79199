"""The counts of tests/repository/house.py are at their limits, and each count finds its constructs."""

from __future__ import annotations

from pathlib import Path

import house
import pytest
from house import LIMITS, MEASURES, ROOT, Found, counted, table, wrong

LONG = "def f():\n" + "    pass\n" * 60
PYTHON_TWIN = "def {name}(x, scale):\n    '''{name} of x.'''\n" + "".join(
    f"    y{i} = x[{i}] * scale + y{i - 1}\n" for i in range(1, 9)
)
TEMPLATE_TWIN = "struct S {{\n    __device__ __forceinline__ void {name}() {{  // {name}\n" + (
    "".join(f"        y[{i}] = x[{i}] * scale + offset;\n" for i in range(8)) + "    }}\n}};\n"
)
# The planted files, and the line that each count must find.
PLANTED = {
    "functions over 60 lines": ({"tuner/a.py": "x = 1\n" + LONG}, ["tuner/a.py:2"]),
    "dict[str, Any] in generator/": (
        {"generator/a.py": "a: int\nb: dict[str, Any]\n", "tuner/a.py": "b: dict[str, Any]\n"},
        ["generator/a.py:2"],
    ),
    "roles[...] in generator/": (
        {"generator/a.py": 'plan.roles["a"]\nplan.roles.get("b")\nroles = x[1]\n'},
        ["generator/a.py:1", "generator/a.py:2"],
    ),
    'constants["..."] in generator/': ({"generator/a.py": 'constants[0]\nplan.constants["b"]\n'}, ["generator/a.py:2"]),
    "inline conditionals": (
        {"templates/a/b.j2": '${ "if" }\n//% if a\n${ "}" if a\n   else b } ${ x if y else z }\nif (x) {}\n'},
        ["templates/a/b.j2:3", "templates/a/b.j2:4"],
    ),
    "template lines over 110 columns": ({"templates/a.j2": "x" * 110 + "\n" + "x" * 111}, ["templates/a.j2:2"]),
    "directives beyond one template line in 11": (
        {
            "templates/a.j2": "//% if a\nint x;\n//% endif\n" + "int x;\n" * 10,
            "templates/b.j2": "//% include [\n  'c.j2'\n//% ]\n" + "int x;  // %\n" * 27,
        },
        ["templates/a.j2:1", "templates/a.j2:3"],
    ),
    "templates with over a quarter of directives": (
        {
            "templates/a.j2": "//% if a\nint x;\n  //% endif\n" + "int x;\n" * 4,
            "templates/b.j2": "//% if a\nint x;\n<% endif %>\n" + "int x;\n" * 5,
            "templates/c.j2": "//% include [\n'a.j2', 'b.j2']\nint x;\nint y;\n",
        },
        ["templates/a.j2:1", "templates/c.j2:1"],
    ),
    "C++ text in variables of templates": (
        {
            "templates/a.j2": '//% set x = "a" in b or c == "d"\n//% set n = 4 * b\n//% set call = "f(x)"\n'
            "int y;\n//%   set z = 'x' if \"x\" in wants else y\n"
        },
        ["templates/a.j2:3", "templates/a.j2:5"],
    ),
    "duplicated functions": (
        {
            "src/a.py": PYTHON_TWIN.format(name="scaled"),
            "bench/b.py": "# b\n\n" + PYTHON_TWIN.format(name="other"),
            "templates/a.j2": TEMPLATE_TWIN.format(name="put"),
            "templates/b.j2": TEMPLATE_TWIN.format(name="store").replace("    ", "  "),
            "tests/c.py": PYTHON_TWIN.format(name="scaled"),
        },
        ["src/a.py:1", "templates/a.j2:2"],
    ),
    "words that the field does not use": (
        {
            "tuner/a.py": "# pieces\ndef f(x_pieces):\n    return x_pieces.register_granule, 'cargo'\n",
            "templates/a.j2": '// cargo\nint MAX_PIECES = "cargo";  // inbox\nstruct XPieces {};\nint bandwidth;\n',
            "tests/test_a.py": "def test_a_band_of_tiles():\n    pass\n",
        },
        ["tuner/a.py:2", "tuner/a.py:3", "templates/a.j2:2", "templates/a.j2:3"],
    ),
    "sentences without a subject": (
        {
            "tuner/a.py": '"""What a module is."""\n\n# This is\n# Of two.\nx = 1  # Which one\n# Those below.\n',
            "templates/a.j2": "// Some\n// Of it.\n//% set x = 1\n    // Of a step.\nint x;  // That is x\n",
            "generator/b.py": 'def f():\n    """Whatever."""\n\n\nclass A:\n    """Where A is.\n\n    Of it."""\n',
        },
        ["generator/b.py:6", "templates/a.j2:4", "templates/a.j2:5", "tuner/a.py:1", "tuner/a.py:5", "tuner/a.py:6"],
    ),
    "words that say nothing": (
        {
            "tuner/a.py": "# So @many pixels.\n# so @many that they fill it\nx = 3  # times @less\n".replace("@", ""),
            "docs/a.md": "The copy @engine brings it\nto the second-level @cache.\nTMA, L2.\n".replace("@", ""),
        },
        ["docs/a.md:1", "docs/a.md:2", "tuner/a.py:1", "tuner/a.py:3"],
    ),
}


@pytest.mark.slow
def test_counts_are_at_their_limits() -> None:
    said = wrong(counted(ROOT), LIMITS)
    assert not said, "\n".join(said)


@pytest.mark.parametrize("name", MEASURES)
def test_a_count_sees_what_it_counts(name: str, tmp_path: Path) -> None:
    texts, places = PLANTED[name]
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert [f"{found.path}:{found.line}" for found in MEASURES[name](tmp_path)] == places


def test_functions_that_only_look_alike_are_no_pair(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    other = PYTHON_TWIN.format(name="other").replace("* scale +", "- offset *").replace("x[", "w[")
    nested = "def outer():\n" + "".join(f"    {line}\n" for line in PYTHON_TWIN.format(name="inner").splitlines())
    (tmp_path / "src/a.py").write_text(PYTHON_TWIN.format(name="scaled"))
    (tmp_path / "src/b.py").write_text(other)
    assert list(house.duplicated_functions(tmp_path)) == []
    (tmp_path / "src/a.py").write_text(nested)
    house.files.cache_clear()
    house.definitions.cache_clear()
    assert list(house.duplicated_functions(tmp_path)) == []


def test_a_long_stretch_in_common_makes_a_pair(tmp_path: Path) -> None:
    """If both are long, it may be less than half of the shorter."""
    (tmp_path / "src").mkdir()
    common = "".join(f"    y{i} = x[{i}] * scale\n" for i in range(30))
    for name in ("a", "b"):
        own = "".join(f"    {name}{i} = {name}.f{i}({name})\n" for i in range(50))
        (tmp_path / f"src/{name}.py").write_text(f"def {name}(x):\n{common}{own}")
    (found,) = house.duplicated_functions(tmp_path)
    assert found.what.startswith("a has 37% of the shorter")


def test_above_and_below_a_limit_are_both_wrong() -> None:
    found = {"a": [Found("x.py", 3, "long"), Found("y.py", 4, "longer")], "new": [Found("z.j2", 5, "${ a if b }")]}
    assert wrong(found, {"a": 2, "new": 1}) == []
    assert wrong(found, {"a": 1, "new": 1}) == ["a: 2, and 1 is the limit\n  x.py:3: long\n  y.py:4: longer"]
    assert wrong(found, {"a": 2}) == ["new: 1, and 0 is the limit\n  z.j2:5: ${ a if b }"]
    assert wrong(found, {"a": 3, "new": 1}) == [
        "a: 2, fewer than the limit 3: write 2 in LIMITS of tests/repository/house.py",
    ]
    assert wrong({}, {"gone": 1}) == [
        "gone: 0, fewer than the limit 1: leave its row out, or write 0 in LIMITS of tests/repository/house.py"
    ]


def test_the_table_has_every_count_and_their_sum() -> None:
    found = {"inline conditionals of templates/a.j2": [Found("templates/a.j2", 1, "${ a if b }")] * 3, "short": []}
    lines = table(found, {"short": 2, "inline conditionals of templates/b.j2": 1}).splitlines()
    assert [line.split()[-2:] for line in lines[1:4]] == [["0", "2"], ["0", "1"], ["3", "0"]]
    assert lines[-1].split() == ["inline", "conditionals,", "all", "3"]
