"""Mutants of the integer ops between convolutions: their problems, arithmetic, plans and pages."""

from mutants.mutant import Mutant

ROOM = "src/qconv/tensor_ops"
BINARY, API = "templates/tensor_ops/binary.j2", "instances/tensor_ops_api.py"
OF_ORT = "tests/conformance/test_onnxruntime_tensor_ops.py"
OF_BINARY, OF_API = "tests/qconv/tensor_ops/test_binary.py", "tests/instances/test_tensor_ops_api.py"


def sanitized(page: str, plan: str) -> str:
    return f"tests/templates/test_{page}.py::test_nothing_is_found[{plan}]"


MUTANTS = (
    Mutant(
        "add: the zero points in another order",
        f"{ROOM}/arithmetic.py",
        "fma(a_ratio, np.float32(p.a_zero_point), b_ratio * np.float32(p.b_zero_point))",
        "a_ratio * np.float32(p.a_zero_point) + b_ratio * np.float32(p.b_zero_point)",
        "ONNX Runtime's compiler has fused the first product with the sum: some bits differ.",
        (f"{OF_ORT}::test_all_pairs_of_bytes",),
    ),
    Mutant(
        "add: the second element is not fused",
        f"{ROOM}/arithmetic.py",
        'fma(v["b"].astype(np.float32), v["b_ratio"], v["offset"])',
        'v["b"].astype(np.float32) * v["b_ratio"] + v["offset"]',
        "A product that is rounded before it is added gives other bits.",
        (f"{OF_ORT}::test_all_pairs_of_bytes",),
    ),
    Mutant(
        "add: the element of a is not fused in C++",
        f"{ROOM}/arithmetic.py",
        "value = tile::fma(static_cast<float>(a), args.a_ratio, value);",
        "value = tile::add(tile::multiply(static_cast<float>(a), args.a_ratio), value);",
        "The C++ line is not what the NumPy line beside it computes.",
        ("tests/templates/test_binary.py::test_all_pairs_of_bytes",),
    ),
    Mutant(
        "binary: relu at zero",
        f"{ROOM}/arithmetic.py",
        "return max(low, p.y_zero_point) if",
        "return max(low, 0) if",
        "A real zero is the zero point.",
        (f"{OF_BINARY}::test_a_relu_is_a_clamp_at_the_zero_point",),
    ),
    Mutant(
        "binary: an axis of extent 1 ends a run",
        f"{ROOM}/binary.py",
        "        if a == 1:\n            continue\n",
        "",
        "An axis of one index is repeated and kept at once.",
        (f"{OF_BINARY}::test_how_it_is_broadcast",),
    ),
    Mutant(
        "binary: two keys of one problem",
        f"{ROOM}/binary.py",
        "        if self.repeat == 1:\n",
        "        if self.repeat == 0:\n",
        "Whoever tuned one would not find it by the other.",
        (f"{OF_BINARY}::test_a_tensor_of_the_same_shape_has_one_key",),
    ),
    Mutant(
        "tensor ops: a zero point of any type",
        f"{ROOM}/problem.py",
        "                check_zero_point(name, number, zero_points[name])\n",
        "",
        "A zero point that its type cannot hold is an error of the caller.",
        (f"{OF_BINARY}::test_what_is_refused_of_a_call",),
    ),
    Mutant(
        "binary: hardly any outputs but the zero point",
        f"{ROOM}/binary_ops.py",
        "rng.uniform(LEAST_SPREAD, MOST_SPREAD)",
        "rng.uniform(0, 1)",
        "Data whose outputs are all alike see nothing.",
        (f"{OF_BINARY}::test_outputs_vary",),
    ),
    Mutant(
        "binary: vectors of b begin between",
        "generator/binary.py",
        "in_rows = problem.inner % config.vector == 0 or problem.repeat == 1",
        "in_rows = True",
        "A row that is no whole number of vectors has neighbours of another row in one.",
        (sanitized("binary", "rows within a vector"),),
    ),
    Mutant(
        "binary: one element of b for a vector of two rows",
        "generator/binary.py",
        "(problem.outer == 1 or problem.repeat % config.vector == 0)",
        "True",
        "Rows that are no whole number of vectors meet two elements in one.",
        ("tests/templates/test_binary.py::test_random_problems", sanitized("binary", "a row ends within a vector")),
    ),
    Mutant(
        "binary: the row of b",
        BINARY,
        "at / (REPEAT * INNER) * INNER + at % INNER;",
        "at / (REPEAT * INNER) + at % INNER;",
        "A row of b has INNER elements.",
        (sanitized("binary", "a factor a channel and image"),),
    ),
    Mutant(
        "binary: the elements behind the last whole vector",
        BINARY,
        "for (unsigned at = first; at < ELEMENTS; ++at) {",
        "for (unsigned at = first; at + 1 < ELEMENTS; ++at) {",
        "The last element is computed as well.",
        (sanitized("binary", "vectors and a tail"),),
    ),
    Mutant(
        "tensor ops: rows of vectors lie over each other",
        "templates/tensor_ops/rows.j2",
        "tile::block_x()) * ROWS + row)",
        "tile::block_x()) + row)",
        "A block has ROWS rows; others compute them again, and the last ones are not computed.",
        (sanitized("binary", "vectors and a tail"),),
    ),
    Mutant(
        "add: the larger tensor keeps the smaller one's scale",
        API,
        'swapped = {"a": "b", "b": "a", "y": "y"}',
        'swapped = {"a": "a", "b": "b", "y": "y"}',
        "Scales and zero points go where their tensor goes.",
        (f"{OF_API}::test_the_larger_may_be_either_of_them",),
    ),
    Mutant(
        "table: a NaN is the largest output",
        f"{ROOM}/functions.py",
        "np.fmin(np.fmax(real / p.y_scale, low), high)",
        "np.fmax(np.fmin(real / p.y_scale, high), low)",
        "Whoever gives a function that has no value somewhere gets the least output there.",
        (f"{OF_API}::test_a_function_without_a_value",),
    ),
    Mutant(
        "table: the sigmoid of a power that is rounded",
        f"{ROOM}/functions.py",
        "value = fma(value, x, coefficient)",
        "value = value * x + coefficient",
        "ONNX Runtime's polynomials are made of fma: some bits differ.",
        (f"{OF_ORT}::test_tables_of_all_bytes",),
    ),
    Mutant(
        "table: by values",
        f"{ROOM}/table.py",
        "return (table[x.view(np.uint8)],)",
        "return (table[x.astype(np.int16) + 128 * (x.dtype == np.int8)],)",
        "Entry i is that of the byte i, be it of int8.",
        (
            f"{OF_API}::test_a_table_is_read_by_bytes_and_may_write_over_its_input",
            sanitized("table", "vectors and a tail-address"),
        ),
    ),
    Mutant(
        "table: copies for small tensors",
        "generator/table.py",
        "filled = FILL * WORDS",
        "filled = 0 * WORDS",
        "A block that looks up little writes one table only.",
        ("tests/templates/test_table.py::test_copies_are_for_tensors_that_are_worth_them",),
    ),
    Mutant(
        "table: no barrier behind the table",
        "templates/tensor_ops/table.j2",
        "    tile::barrier();\n",
        "",
        "A thread reads words of the table that others write.",
        (sanitized("table", "vectors and a tail-thread"),),
    ),
    Mutant(
        "table: the copy of another lane",
        "templates/tensor_ops/table.j2",
        "copy[code / 4 * (4 * COPIES) + code % 4]",
        "copy[code / 4 * 4 + code % 4]",
        "The words of one copy lie COPIES words apart.",
        (sanitized("table", "vectors and a tail-address"),),
    ),
)
