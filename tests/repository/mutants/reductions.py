"""Mutants of reductions: the oracle, the passes, the plan and the kernel."""

from mutants.mutant import Mutant

KERNEL, ORACLE = "templates/test_reduce.py", "qconv/expression/test_reduce.py"


def case(name: str) -> str:
    return f"{KERNEL}::test_a_kernel_gives_the_oracles_bits[{name}]"


MUTANTS = (
    Mutant(
        "reductions: the oracle's lanes are pairs",
        "folded",
        "combine(total[..., :half], total[..., half:])",
        "combine(total[..., ::2], total[..., 1::2])",
        "The contract combines lanes that are half of them apart.",
        (f"{ORACLE}::test_a_sum_is_in_the_order_of_the_contract[257]",),
    ),
    Mutant(
        "reductions: the oracle finds a NaN",
        "_position",
        "np.where(values != values, identity(kind, str(values.dtype)), values)",
        "values",
        "NumPy's argmax of a row with a NaN is the NaN's position.",
        (f"{ORACLE}::test_a_nan_has_no_position",),
    ),
    Mutant(
        "reductions: a NaN has a position",
        "FoldLines.of",
        "element == element ? element : begin().element",
        "element",
        "No comparison moves a NaN that came first.",
        (f"{KERNEL}::test_equal_elements_zeros_of_both_signs_and_nans[argmax-0]",),
    ),
    Mutant(
        "reductions: of equal elements whichever came first to a thread",
        "FoldLines.combined",
        '"(a.element == b.element && a.column < b.column)"',
        '"a.element == b.element"',
        "A later lane may have an earlier column.",
        (f"{KERNEL}::test_equal_elements_zeros_of_both_signs_and_nans[argmin-0]",),
    ),
    Mutant(
        "reductions: every fold is without order",
        "FoldLines.is_ordered",
        "self._fold.of.dtype == FLOAT and not self.is_position",
        "False",
        "The bits of a sum of floats depend on the config.",
        (case("257 columns"),),
    ),
    Mutant(
        "reductions: what an earlier pass computed is computed from nothing",
        "Passes.element_lines",
        "for one in self.kept if one in each.elements",
        "for one in self.kept[1:] if one in each.elements",
        "A later pass reads what nothing has written.",
        (case("several warps, values kept"),),
    ),
    Mutant(
        "reductions: a batch may begin at any of a thread's lanes",
        "plan",
        "if config.unroll < vectors and config.unroll % jumps:",
        "if config.unroll < vectors and False:",
        "A step belongs to other lanes in each batch.",
        (f"{KERNEL}::test_what_a_config_cannot_serve",),
    ),
    Mutant(
        "reductions: values are kept of one batch",
        "plan",
        "if config.keep and (config.unroll < vectors or not made.kept):",
        "if config.keep and not made.kept:",
        "The next batch overwrites them.",
        (f"{KERNEL}::test_what_a_config_cannot_serve",),
    ),
    Mutant(
        "reductions: groups of channels, each by a warp of its own",
        "ReducePlan._neighbours",
        "return min(found, axes[-1].extent) if is_short else found",
        "return found",
        "A warp reads a few bytes of each sector.",
        (f"{KERNEL}::test_the_default_of_groups_reads_neighbours_by_neighbouring_threads",),
    ),
    Mutant(
        "reductions: lanes along a vector of threads across rows",
        "ReducePlan._combined",
        "(self.rows_of_thread == 1)",
        "(not self.config.across)",
        "The lanes of one row would not be combined.",
        (case("channels of groups, of neighbouring threads"),),
    ),
    Mutant(
        "reductions: vectors along rows in memory that lies across",
        "ReducePlan._moved_bytes",
        "own * SECTOR_BYTES / (own * self._neighbours(load))",
        "own",
        "Each thread reads a sector for one element.",
        (f"{KERNEL}::test_the_default_reads_a_large_problem_once_in_wide_vectors",),
    ),
    Mutant(
        "reductions: a column behind the last one",
        "families/expression/reduce.j2",
        "if (IS_WHOLE || column < COLUMNS) body(column, step);",
        "body(column, step);",
        "The elements of the next row are folded too.",
        (case("257 columns"),),
    ),
    Mutant(
        "reductions: the halves of partners are swapped",
        "combine_neighbours",
        "is_upper ? lanes[i] : lanes[i + kept]",
        "is_upper ? lanes[i + kept] : lanes[i]",
        "A thread combines its half of the lanes with the other half.",
        (case("more lanes in a vector than members"),),
    ),
    Mutant(
        "reductions: the lanes that are left are not combined",
        "combine_neighbours",
        "LANES_LEFT >> level > 0; ++level)",
        "LANES_LEFT >> level > 1; ++level)",
        "A vector is longer than a team.",
        (case("more lanes in a vector than members"),),
    ),
    Mutant(
        "reductions: a thread's nearest lanes first",
        "Lanes::combine_jumps",
        "value[jump + (JUMPS >> level)][i]",
        "value[JUMPS - 1 - jump][i]",
        "The contract combines lanes that are half of them apart.",
        (case("257 columns"),),
    ),
    Mutant(
        "reductions: members read before the others wrote",
        "combine_in_shared_memory",
        "        tile::barrier();\n",
        "",
        "A partner's lanes are of an earlier level.",
        (f"{KERNEL}::test_nothing_is_found[neighbouring rows-thread]",),
    ),
    Mutant(
        "reductions: the first member has the result alone",
        "broadcast",
        "tile::thread() - member * NEXT",
        "tile::thread()",
        "The others read a place of their own.",
        (case("several warps, values kept"),),
    ),
    Mutant(
        "reductions: teams beyond the last row",
        "families/expression/reduce.j2",
        "own_row < ROWS ? own_row : ROWS - ROWS_OF_THREAD",
        "own_row",
        "They read behind the operands.",
        (f"{KERNEL}::test_nothing_is_found[neighbouring rows-address]",),
    ),
)
