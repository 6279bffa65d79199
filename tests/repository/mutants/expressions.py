"""Mutants of expressions: functions, indices, bounds, nodes, problems, and the plan and the page of `map`."""

from mutants.mutant import Mutant

FUNCTION, INDEX, BOUNDS, NODE, PROBLEM, MAP = (
    f"qconv/expression/test_{name}.py" for name in ("function", "index", "bounds", "node", "problem", "map")
)
KERNEL = "templates/test_map.py"


def exact(name: str) -> str:
    return f"{KERNEL}::test_every_element_is_the_oracles[{name}]"


def bits(name: str) -> str:
    return f"{FUNCTION}::test_the_kernel_has_the_bits_of_numpy[{name}]"


def real(name: str) -> str:
    return f"{FUNCTION}::test_it_is_near_the_real_function[{name}]"


MUTANTS = (
    Mutant(
        "functions: a coefficient of a logarithm",
        "src/qconv/expression/elementary.py",
        "0.20002119",
        "0.20012119",
        "The kernel and the oracle agree, and both are wrong.",
        (real("log"),),
    ),
    Mutant(
        "functions: a sine loses the second part of pi",
        "src/qconv/expression/elementary.py",
        "for part in HALF_PI_PARTS:",
        "for part in HALF_PI_PARTS[:1]:",
        "Angles of some turns have few right digits.",
        (real("sin"), bits("sin-float32")),
    ),
    Mutant(
        "functions: e**x is limited",
        "templates/families/expression/elementary.j2",
        "if (tile::magnitude(a) <= 87.0f) return",
        "return",
        "Results above e**87 are e**87.",
        (bits("exp-float32"),),
    ),
    Mutant(
        "functions: NaN of a curve is lost on a device",
        "templates/families/expression/functions.j2",
        "return a != a ? a : tile::sigmoid(a);",
        "return tile::sigmoid(a);",
        "Devices differ in what the largest of NaN and a number is.",
        (bits("sigmoid-float32"),),
    ),
    Mutant(
        "functions: the larger of two zeros",
        "templates/prelude/cpu.j2",
        "return a > b || (a == b && __builtin_signbit(b)) ? a : b;",
        "return a > b ? a : b;",
        "A device has the other sign of a zero.",
        (bits("maximum-float32"),),
    ),
    Mutant(
        "functions: nearest truncates",
        "templates/prelude/cpu.j2",
        "return truncated(__builtin_rintf(a)); }",
        "return truncated(a); }",
        "Half of all requantized values are one too small.",
        (bits("nearest-float32"),),
    ),
    Mutant(
        "functions: quantize corrects no quotient",
        "templates/families/expression/functions.j2",
        "const float quotient = tile::magnitude(rough) < 0x1p23f ? exact : rough;",
        "const float quotient = rough;",
        "Ties, and numbers near them, are rounded to the other side.",
        (bits("quantize-float32"),),
    ),
    Mutant(
        "functions: quantize corrects to a rough quotient",
        "src/qconv/expression/function.py",
        "exact = fma(fma(-scale, rough, a), inverse, rough)",
        "exact = rough",
        "The oracle's quotient is not that of a division.",
        (f"{FUNCTION}::test_quantize_has_the_bits_of_a_division",),
    ),
    Mutant(
        "functions: a negative base of an odd power",
        "src/qconv/expression/elementary.py",
        "made = np.where(is_odd & np.signbit(a), -made, made)",
        "made = np.where(is_odd & (a < 0), -made, made)",
        "An odd power of -0 is -0.",
        (f"{FUNCTION}::test_ends_and_zeros_give_the_results_of_c",),
    ),
    Mutant(
        "functions: a byte wraps at another width",
        "templates/families/expression/functions.j2",
        "int wrap_int8(int a) { return static_cast<signed char>(a); }",
        "int wrap_int8(int a) { return static_cast<unsigned char>(a); }",
        "Negative numbers become positive.",
        (bits("wrap_int8-int32"),),
    ),
    Mutant(
        "functions: a long shift is one by few bits",
        "templates/families/expression/functions.j2",
        "return by < 0 || by >= 32 ? 0 : static_cast<int>(static_cast<unsigned>(a) >> by);",
        "return static_cast<int>(static_cast<unsigned>(a) >> (by & 31));",
        "Hardware takes the shift modulo 32.",
        (bits("shift_right-int32"),),
    ),
    Mutant(
        "functions: the remainder of a denormal",
        "templates/families/expression/functions.j2",
        "    if (to == 0) to = 1;\n",
        "",
        "A denormal number has the exponent of the least normal ones.",
        (bits("remainder-float32"),),
    ),
    Mutant(
        "indices: a quotient of a negative index",
        "Index._split",
        "steps = (rest.low + self.constant) // number",
        "steps = self.constant // number",
        "C++ rounds a negative quotient toward zero.",
        (INDEX,),
    ),
    Mutant(
        "indices: a remainder that is none stays",
        "Index.__mod__",
        "if rest.high < number:",
        "if rest.high < 0:",
        "A kernel divides where nothing is left over.",
        (f"{INDEX}::test_no_dividend_is_negative_and_no_division_is_without_effect",),
    ),
    Mutant(
        "indices: a quotient of a quotient by the first alone",
        "Index.__floordiv__",
        "inner.of // (inner.by * number)",
        "inner.of // number",
        "The divisors of both count.",
        (INDEX,),
    ),
    Mutant(
        "indices: a minus in front of a quotient",
        "Index.__str__",
        "first_is_constant = not ordered or ordered[0][1] < 0",
        "first_is_constant = not ordered",
        "The first term loses its minus.",
        (INDEX,),
    ),
    Mutant(
        "bounds: guards of other axes are not considered",
        "src/qconv/expression/bounds.py",
        "joined = joined.union(*(group for group in groups if group & joined))",
        "joined = joined.union()",
        "A read within its operand is refused, or one beyond it is not.",
        (BOUNDS,),
    ),
    Mutant(
        "nodes: zeros of two signs are one number",
        "Number.__eq__",
        "(self.text, self.dtype) == (other.text, other.dtype)",
        "(self.value, self.dtype) == (other.value, other.dtype)",
        "1 / -0 is not 1 / 0.",
        (f"{NODE}::test_numbers", f"{NODE}::test_zeros_of_two_signs_are_two_numbers_and_nan_is_one"),
    ),
    Mutant(
        "nodes: a fill of another type",
        "_Parser._call",
        "if fill.dtype != load.dtype:",
        "if False:",
        "The kernel would convert one of the two.",
        (f"{NODE}::test_what_is_no_expression",),
    ),
    Mutant(
        "nodes: a guard one too wide",
        "Evaluation._loaded",
        "(index < guard.extent)",
        "(index <= guard.extent)",
        "The element behind the last is read.",
        (f"{NODE}::test_a_guard_and_what_takes_its_place", f"{MAP}::test_a_pad"),
    ),
    Mutant(
        "expressions: a read beyond its operand",
        "Expression._check_range",
        "if at.low >= 0 and at.high < elements:",
        "if at.low >= 0 and at.high <= elements:",
        "A kernel would read another array.",
        (f"{PROBLEM}::test_what_no_kernel_could_compute_is_refused",),
    ),
    Mutant(
        "expressions: a table is read beyond its end",
        "Expression._check_root",
        "self._check_range(entry.table, entry.at, ())",
        "pass",
        "A kernel would read an index from another array.",
        (f"{PROBLEM}::test_what_no_kernel_could_compute_is_refused",),
    ),
    Mutant(
        "expressions: every device's own NaN",
        "src/qconv/expression/problem.py",
        "        made[np.isnan(made)] = np.nan\n",
        "        made[np.isnan(made)] = made[np.isnan(made)]\n",
        "A right kernel is taken for a wrong one.",
        (f"{PROBLEM}::test_there_is_one_nan_in_memory", f"{KERNEL}::test_a_nan_has_the_same_bits_however_it_is_made"),
    ),
    Mutant(
        "map: a vector begins between two",
        "is_vector",
        "and (rest % vector) == Index()",
        "",
        "The address is no multiple of the vector.",
        (f"{KERNEL}::test_what_is_contiguous_is_read_as_vectors",),
    ),
    Mutant(
        "map: a vector in front of a row",
        "is_vector",
        "if vector == 1 or any(axis in guard.index.axes for guard in load.guards):",
        "if vector == 1:",
        "A guard may hold for a part of the vector.",
        (f"{KERNEL}::test_what_is_contiguous_is_read_as_vectors",),
    ),
    Mutant(
        "map: a half is read as an integer",
        "widened",
        "NARROW_FLOATS[dtype].read.format(element) if dtype in NARROW_FLOATS else element",
        "element",
        "The bits of a half are no number.",
        (exact("a quantized sum of halves"),),
    ),
    Mutant(
        "map: one NaN for both floats of 16 bits",
        "arithmetic/narrow.py",
        "0x7FC0",
        "0x7E00",
        "0x7e00 is a large bfloat16.",
        (exact("infinities and NaN in bfloat16"),),
    ),
    Mutant(
        "map: a bfloat16 within an expression is not rounded",
        "templates/families/expression/functions.j2",
        "return tile::bfloat16_to_float(tile::to_bfloat16(a));",
        "return a;",
        "The sum of a rounded number is that of another one.",
        (exact("bfloat16 in and out"),),
    ),
    Mutant(
        "map: the default has no vectors",
        "MapPlan.best_vector",
        "if axis is not None and not all(",
        "if axis is not None and all(",
        "A copy takes several times as long.",
        (f"{KERNEL}::test_a_default_has_vectors_of_what_is_contiguous",),
    ),
    Mutant(
        "map: the last block writes behind the output",
        "templates/families/expression/map.j2",
        "if (first < ELEMENTS) compute(args, first);",
        "compute(args, first);",
        "The last block has threads without elements.",
        (f"{KERNEL}::test_a_planted_fault_is_found",),
    ),
)
