"""Mutants of argmax, from its kernel to a session's layer, and of shuffled channels."""

from mutants.mutant import Mutant

HERE, ROOM = "src/qconv/network/", "src/qconv/tensor_ops"
OF_ORT = "tests/conformance/test_onnxruntime_tensor_ops.py"
ARGMAX = "tests/qconv/network/test_argmax.py"


def sanitized(page: str, plan: str) -> str:
    return f"tests/templates/test_{page}.py::test_nothing_is_found[{plan}]"


MUTANTS = (
    Mutant(
        "argmax: of equal elements whichever a thread saw",
        "templates/tensor_ops/argmax.j2",
        "(LAST ? at : MOST_INDEX - at)",
        "at",
        "The last of equal elements counts where the first was asked for.",
        (sanitized("argmax", "an axis of neighbours-address"),),
    ),
    Mutant(
        "argmax: elements by their bits",
        "templates/tensor_ops/argmax.j2",
        "static_cast<unsigned>(element - LEAST)",
        "static_cast<unsigned char>(element)",
        "Every negative element is larger than every other.",
        (sanitized("argmax", "an axis that no team divides-address"),),
    ),
    Mutant(
        "argmax: a vector across the axis has indices along it",
        "templates/tensor_ops/argmax.j2",
        "at + i % STEP",
        "at + i",
        "Outputs beside each other are shifted.",
        (sanitized("argmax", "the last block has few axes-address"),),
    ),
    Mutant(
        "argmax: the first member of a team alone",
        "templates/tensor_ops/argmax.j2",
        "for (int each = 0; each < TEAM; ++each)",
        "for (int each = 0; each < 1; ++each)",
        "Every member has elements of its own.",
        (sanitized("argmax", "an axis of neighbours-address"),),
    ),
    Mutant(
        "argmax: a block writes all of its outputs",
        "templates/tensor_ops/argmax.j2",
        "i < TEAMS * OUTPUTS_OF_TEAM && first + i < OUTPUTS;",
        "i < TEAMS * OUTPUTS_OF_TEAM;",
        "The last block has fewer axes than teams.",
        (sanitized("argmax", "the last block has few axes-address"),),
    ),
    Mutant(
        "argmax: vectors that reach over an axis",
        "generator/argmax.py",
        "    if neighbours % config.vector:\n",
        "    if problem.inner == 1 and neighbours % config.vector:\n",
        "The rest of an axis is never read, or belongs to the next one.",
        ("tests/templates/test_argmax.py::test_what_a_config_cannot_serve",),
    ),
    Mutant(
        "argmax: the oracle counts the last from the end",
        f"{ROOM}/argmax.py",
        "problem.length - 1 - x[:, ::-1].argmax(axis=1)",
        "x[:, ::-1].argmax(axis=1)",
        "The distance of the last of equal elements from the end is no index.",
        (f"{OF_ORT}::test_where_the_largest_elements_are",),
    ),
    Mutant(
        "argmax: of a row every byte is drawn",
        f"{ROOM}/argmax.py",
        "np.where(few, x >> CLEARED_BITS << CLEARED_BITS, x)",
        "x",
        "Short rows have no equal elements, and nobody sees which one counts.",
        ("tests/qconv/tensor_ops/test_argmax.py",),
    ),
    Mutant(
        "shuffle: axes that are taken apart elsewhere are channels",
        "src/qconv/network/shuffle.py",
        "(split[0], prod(split[1:3]), *split[3:]) == shape == joined",
        "shape == joined",
        "Pixels are shuffled as if they were channels.",
        ("tests/qconv/network/test_shuffle.py",),
    ),
    Mutant(
        "shuffle: channels are gathered, and not dealt out",
        "src/qconv/network/shuffle.py",
        "return _Shuffled(split[1:3], device)",
        "return _Shuffled(split[2:0:-1], device)",
        "It undoes the shuffle that the model has.",
        ("tests/qconv/network/test_shuffle.py",),
    ),
    Mutant(
        "shuffle: any order of axes is one",
        "src/qconv/network/shuffle.py",
        "swap.axes is None or swap.axes != _swapping(len(swap.axes)) or folded",
        "swap.axes is None or folded",
        "A layer is folded whose own copies would be fewer.",
        ("tests/qconv/network/test_shuffle.py",),
    ),
    Mutant(
        "shuffle: the end of one is the beginning of the next",
        "src/qconv/network/shuffle.py",
        "folded.get(one.layer.name) is not one",
        "not one",
        "A layer that was folded already is folded again.",
        ("tests/qconv/network/test_shuffle.py",),
    ),
    Mutant(
        "argmax: a scale of any sign is folded",
        HERE + "argmax.py",
        "limits.tiny <= scale.item() <= limits.max / MOST_STEPS",
        "abs(scale.item()) <= limits.max / MOST_STEPS",
        "With a negative scale the largest number is the smallest byte.",
        (ARGMAX,),
    ),
    Mutant(
        "argmax: numbers that are infinite are told apart",
        HERE + "argmax.py",
        "<= limits.max / MOST_STEPS",
        "<= limits.max",
        "Several bytes become the same infinity, of which the first counts.",
        (ARGMAX,),
    ),
    Mutant(
        "argmax: numbers of any type are told apart",
        HERE + "argmax.py",
        ' or source.attributes.get("output_dtype", 0):',
        ":",
        "In 16 bits some bytes become infinite.",
        (ARGMAX,),
    ),
    Mutant(
        "argmax: numbers that others read go",
        HERE + "argmax.py",
        "        if not is_read:\n",
        "        if is_read:\n",
        "A layer reads a tensor that nobody makes.",
        (ARGMAX,),
    ),
    Mutant(
        "argmax: without its channels a tensor has them last",
        HERE + "argmax.py",
        "self._reads_last and axis > 1 and rank > 3",
        "self._reads_last and rank > 3",
        "Rows and columns of the indices change places.",
        (ARGMAX,),
    ),
    Mutant(
        "argmax: images are compared with their channels last",
        HERE + "argmax.py",
        "rank > 2 and axis > 0",
        "rank > 2",
        "What is left without its images is in an order that no reader expects.",
        (ARGMAX,),
    ),
)
