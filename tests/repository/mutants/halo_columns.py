"""Mutants of what the family halo does where neighbouring columns of the input are the channels of one pixel."""

from mutants.mutant import Mutant

WEIGHTS = "templates/families/halo/weights.j2"
TESTS = "tests/generator/families/halo/test_windows.py"
SAME = f"{TESTS}::test_sums_are_the_same"
SEVEN, OF_BORDERS, OF_FOUR, PIXEL_ROWS = (
    f"tests/templates/test_halo_columns.py::test_nothing_is_left_out[{name}]"
    for name in ("seven taps", "borders", "columns of four", "pixel rows")
)


def stays(change: str) -> str:
    return f"{TESTS}::test_columns_that_stay_apart[change{change}]"


OF_PROBLEM = (
    Mutant(
        "halo: columns together may exceed a problem's limits",
        "generator/families/halo/windows.py",
        "        except ValueError:\n",
        "        except ArithmeticError:\n",
        "Filters with zeros are larger than a problem's may be, and lookup raises ValueError.",
        ("tests/generator/families/test_families.py",),
    ),
    Mutant(
        "halo: a filter has the pixels that it would have if it began with one",
        "generator/families/halo/windows.py",
        "ceil_div(left * columns - problem.pad[1] + problem.s, columns)",
        "ceil_div(problem.s, columns)",
        "With columns of zeros before it, it may end in one more.",
        (SAME,),
    ),
    Mutant(
        "halo: pixels of padding are as many as columns",
        "generator/families/halo/windows.py",
        "left = ceil_div(problem.pad[1], columns)",
        "left = problem.pad[1]",
        "Several columns are a pixel.",
        (SAME,),
    ),
    Mutant(
        "halo: columns of padding that are no whole pixel are left out",
        "generator/families/halo/windows.py",
        "left = ceil_div(problem.pad[1], columns)",
        "left = problem.pad[1] // columns",
        "The filter begins within that pixel.",
        (SAME,),
    ),
    Mutant(
        "halo: images end with their last pixel",
        "generator/families/halo/windows.py",
        "problem.ow - 1 + taps - width - left)",
        "0)",
        "The last window may reach beyond it.",
        (SAME,),
    ),
    Mutant(
        "halo: columns are together whatever the width",
        "generator/families/halo/windows.py",
        " and problem.w % columns == 0",
        "",
        "The last pixel of a row would begin the next row.",
        (stays("1"),),
    ),
    Mutant(
        "halo: columns are together whatever the dilation",
        "generator/families/halo/windows.py",
        " and problem.dilation[1] == 1",
        "",
        "Taps would lie within pixels.",
        (stays("2"),),
    ),
    Mutant(
        "halo: columns of groups are together",
        "generator/families/halo/windows.py",
        "is_plain = problem.groups == 1 and",
        "is_plain =",
        "A group's channels would not follow each other.",
        (stays("3"),),
    ),
    Mutant(
        "halo: columns are together however many channels they have",
        "generator/families/halo/windows.py",
        "columns * problem.c > ROWS[-1] or ",
        "",
        "Slabs of the last channels would be mostly zeros.",
        (stays("5"),),
    ),
    Mutant(
        "halo: columns are together however many products they take",
        "generator/families/halo/windows.py",
        "products > min(MOST_PRODUCTS, worth)",
        "products > MOST_PRODUCTS",
        "Half of them may be with zeros.",
        (stays("6"),),
    ),
    Mutant(
        "halo: more products for any number of outputs",
        "generator/families/halo/windows.py",
        "may_take_more = problem.k <= FEW_OUTPUTS or",
        "may_take_more = problem.k > 0 or",
        "Windows that are multiplied more than once are there long before.",
        (f"{TESTS}::test_more_products_are_worth_it_for_few_outputs",),
    ),
    Mutant(
        "halo: pixels that lanes bring are brought one by one for many outputs",
        "generator/families/halo/windows.py",
        " or problem.c % CHUNK > 0",
        "",
        "Two columns of 24 channels are whole sixteens, which TMA moves.",
        (f"{TESTS}::test_more_products_are_worth_it_for_few_outputs",),
    ),
    Mutant(
        "halo: filters of any size are seen",
        "generator/families/halo/windows.py",
        "min(MOST_PRODUCTS, worth)",
        "worth",
        "A tile may have 160 products.",
        (f"{TESTS}::test_merged_columns_take_no_more_products_than_a_tile_may_have",),
    ),
    Mutant(
        "halo: columns in between are passed over where only rows lie a stride apart",
        "generator/families/halo/windows.py",
        "skips=stride_w > 1 and",
        "skips=problem.stride != (1, 1) and",
        "Rows of pixels follow each other.",
        (f"{TESTS}::test_nothing_is_passed_over_within_a_row",),
    ),
)

OF_FILTERS = (
    Mutant(
        "halo: filters begin with a pixel",
        "templates/families/halo/filter_of_columns.j2",
        " - ZERO_COLUMNS",
        "",
        "Columns of zeros come first.",
        (SEVEN,),
    ),
    Mutant(
        "halo: columns behind a filter are those of its next row",
        "templates/families/halo/filter_of_columns.j2",
        " || column >= FILTER_W",
        "",
        "They are zeros.",
        (OF_FOUR,),
    ),
    Mutant(
        "halo: rows of a filter are as long as its taps",
        "templates/families/halo/filter_of_columns.j2",
        "tap / S * FILTER_W",
        "tap / S * S",
        "Several columns are a tap.",
        (OF_BORDERS,),
    ),
    Mutant(
        "halo: channels of all columns are read in the first",
        "templates/families/halo/filter_of_columns.j2",
        "X_C + c % X_C",
        "X_C + c",
        "Each column has its own.",
        (PIXEL_ROWS,),
    ),
    Mutant(
        "halo: filters are as long as what a pixel is multiplied by",
        "generator/families/halo/plan.py",
        'reduction = {"REDUCTION": self.problem.reduction}',
        "reduction: dict[str, int] = {}",
        "Zeros that are added to them are not stored.",
        (SEVEN,),
    ),
)

MUTANTS = (*OF_PROBLEM, *OF_FILTERS)
