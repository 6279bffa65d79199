"""Mutants of what the family halo does where neighbouring columns of the input are the channels of one pixel."""

from mutants.mutant import Mutant

TESTS = "test_config.py"
SAME = f"{TESTS}::test_sums_are_the_same"
SEVEN, OF_BORDERS, OF_FOUR, PIXEL_ROWS = (
    f"test_halo_columns.py::test_nothing_is_left_out[{name}]"
    for name in ("seven taps", "borders", "columns of four", "pixel rows")
)


def stays(change: str) -> str:
    return f"{TESTS}::test_columns_that_stay_apart[change{change}]"


OF_PROBLEM = (
    Mutant(
        "halo: columns together may exceed a problem's limits",
        "ColumnsTogether.of",
        "except ValueError:",
        "except ArithmeticError:",
        "Filters with zeros are larger than a problem's may be, and lookup raises ValueError.",
        ("test_family.py",),
    ),
    Mutant(
        "halo: a filter has the pixels that it would have if it began with one",
        "ColumnsTogether.of",
        "ceil_div(left * columns - problem.pad[1] + problem.s, columns)",
        "ceil_div(problem.s, columns)",
        "With columns of zeros before it, it may end in one more.",
        (SAME,),
    ),
    Mutant(
        "halo: rows that lanes gather for one tap lie beside each other",
        "Windows.of",
        "(problem.r * problem.s > 1 or is_gathered(problem))",
        "problem.r * problem.s > 1",
        "With columns together one tap is left, and the stride between rows stays.",
        ("test_halo_columns.py::test_nothing_is_left_out[one tap, copied]",),
    ),
    Mutant(
        "halo: pixels of padding are as many as columns",
        "ColumnsTogether.of",
        "left = ceil_div(problem.pad[1], columns)",
        "left = problem.pad[1]",
        "Several columns are a pixel.",
        (SAME,),
    ),
    Mutant(
        "halo: columns of padding that are no whole pixel are left out",
        "ColumnsTogether.of",
        "left = ceil_div(problem.pad[1], columns)",
        "left = problem.pad[1] // columns",
        "The filter begins within that pixel.",
        (SAME,),
    ),
    Mutant(
        "halo: images end with their last pixel",
        "ColumnsTogether.of",
        "problem.ow - 1 + taps - width - left)",
        "0)",
        "The last window may reach beyond it.",
        (SAME,),
    ),
    Mutant(
        "halo: columns are together whatever the width",
        "ColumnsTogether.of",
        " and problem.w % columns == 0",
        "",
        "The last pixel of a row would begin the next row.",
        (stays("1"),),
    ),
    Mutant(
        "halo: columns are together whatever the dilation",
        "ColumnsTogether.of",
        " and problem.dilation[1] == 1",
        "",
        "Taps would lie within pixels.",
        (stays("2"),),
    ),
    Mutant(
        "halo: columns of groups are together",
        "ColumnsTogether.of",
        "if not is_possible or problem.groups > 1 or",
        "if not is_possible or",
        "A group's channels would not follow each other.",
        (stays("3"),),
    ),
    Mutant(
        "halo: columns are together however many channels they have",
        "ColumnsTogether.of",
        "columns * problem.c > ROWS[-1] or ",
        "",
        "Slabs of the last channels would be mostly zeros.",
        (stays("5"),),
    ),
    Mutant(
        "halo: columns are together however many products they take",
        "ColumnsTogether.of",
        "products > min(MOST_PRODUCTS, worth)",
        "products > MOST_PRODUCTS",
        "Half of them may be with zeros.",
        (stays("6"),),
    ),
    Mutant(
        "halo: more products for any number of outputs",
        "ColumnsTogether.of",
        "is_worth_more = problem.k <= FEW_OUTPUTS or",
        "is_worth_more = problem.k > 0 or",
        "Windows that are multiplied more than once are there long before.",
        (f"{TESTS}::test_more_products_are_worth_it_for_few_outputs",),
    ),
    Mutant(
        "halo: pixels that lanes bring are brought one by one for many outputs",
        "ColumnsTogether.of",
        " or problem.c % CHUNK > 0",
        "",
        "Two columns of 24 channels are whole sixteens, which TMA moves.",
        (f"{TESTS}::test_more_products_are_worth_it_for_few_outputs",),
    ),
    Mutant(
        "halo: filters of any size are seen",
        "ColumnsTogether.of",
        "min(MOST_PRODUCTS, worth)",
        "worth",
        "With a column of zeros a sum may grow beyond 32 bits.",
        (f"{TESTS}::test_what_an_output_adds_up_may_not_grow_beyond_a_sum",),
    ),
    Mutant(
        "halo: columns in between are passed over where only rows lie a stride apart",
        "Windows.of",
        "skips=stride_w > 1 and",
        "skips=problem.stride != (1, 1) and",
        "Rows of pixels follow each other.",
        (f"{TESTS}::test_nothing_is_passed_over_within_a_row",),
    ),
)

OF_FILTERS = (
    Mutant(
        "halo: filters begin with a pixel",
        "weight_of",
        " - ZERO_COLUMNS",
        "",
        "Columns of zeros come first.",
        (SEVEN,),
    ),
    Mutant(
        "halo: columns behind a filter are those of its next row",
        "weight_of",
        " || column >= FILTER_W",
        "",
        "They are zeros.",
        (OF_FOUR,),
    ),
    Mutant(
        "halo: rows of a filter are as long as its taps",
        "weight_of",
        "tap / S * FILTER_W",
        "tap / S * S",
        "Several columns are a tap.",
        (OF_BORDERS,),
    ),
    Mutant(
        "halo: channels of all columns are read in the first",
        "weight_of",
        "X_C + c % X_C",
        "X_C + c",
        "Each column has its own.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: filters are as long as what a pixel is multiplied by",
        "HaloPlan._problem_constants",
        'reduction = {"REDUCTION": self.problem.reduction}',
        "reduction: dict[str, int] = {}",
        "Zeros that are added to them are not stored.",
        (SEVEN,),
    ),
)

MUTANTS = (*OF_PROBLEM, *OF_FILTERS)
