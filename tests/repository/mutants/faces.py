"""Mutants of what a program in Python calls: whose arrays come out, bench, export, the names of the package."""

from mutants.mutant import Mutant

KINDS = ("tests/instances/test_array_kinds.py",)

MUTANTS = (
    Mutant(
        "faces: the device's arrays come out",
        "instances/array_kinds.py",
        "        return as_kind_of(like, made)\n",
        "        return made\n",
        "What comes out is of the library that went in.",
        KINDS,
    ),
    Mutant(
        "faces: only a single array is of the library",
        "instances/array_kinds.py",
        "            return tuple(as_kind_of(like, array) for array in made)",
        "            return made",
        "Each of several arrays is of the library that went in.",
        KINDS,
    ),
    Mutant(
        "faces: out comes back as another object",
        "instances/array_kinds.py",
        'if named.get("out") is not None:',
        "if False:",
        "The array that the caller gave to be written is what the call gives.",
        KINDS,
    ),
    Mutant(
        "faces: bfloat16 by its name",
        "instances/array_kinds.py",
        'if str(array.dtype) == "bfloat16":',
        'if str(array.dtype) == "float16":',
        "NumPy's DLPack knows no bfloat16.",
        KINDS,
    ),
    Mutant(
        "faces: a wrong kernel is timed",
        "src/qconv/benchmark.py",
        "drawn)) is not None:",
        "drawn)) is None and False:",
        "Nothing is timed that is not right.",
        ("tests/qconv/test_benchmark.py",),
    ),
    Mutant(
        "faces: an export of the first problem",
        "src/qconv/shipping.py",
        "tuple(map(str, given))",
        "tuple(map(str, given[:1]))",
        "All problems that are given are exported.",
        ("tests/qconv/test_shipping.py",),
    ),
    Mutant(
        "faces: any form is sources",
        "src/qconv/shipping.py",
        '    check_choice("form", form, FORMS)\n',
        "",
        "A form that there is not is refused.",
        ("tests/qconv/test_shipping.py",),
    ),
    Mutant(
        "faces: a name that is absent says nothing",
        "src/qconv/__init__.py",
        "if name in _ABSENT else",
        "if name in _HOME_OF else",
        "Who looks for conv3d is told the way round.",
        ("tests/templates/test_layout.py::test_what_is_no_kernel_of_ours_says_why",),
    ),
)
