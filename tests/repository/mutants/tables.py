"""Mutants of convolutions whose outputs are looked up in a table."""

from mutants.mutant import Mutant

HERE = "src/qconv/"
OUTPUT_TABLE = "tests/templates/test_output_table.py"
FOLD_TABLE = "tests/qconv/network/layers/test_folds_table.py"

MUTANTS = (
    Mutant(
        "output table: the index has a sign",
        "src/qconv/arithmetic/output_table.py",
        "channel.table + static_cast<unsigned char>(",
        "channel.table + static_cast<signed char>(",
        "Half of all bytes find what lies in front of the table.",
        (f"{OUTPUT_TABLE}::test_every_byte_has_an_entry",),
    ),
    Mutant(
        "output table: looked up before the clamp",
        "src/qconv/arithmetic/epilogue.py",
        "output_table.entry(clamped)",
        "output_table.entry(cxx + '(value)')",
        "What is beyond the type has the entry of another byte.",
        (f"{OUTPUT_TABLE}::test_every_byte_has_an_entry",),
    ),
    Mutant(
        "output table: turned the other way",
        "src/qconv/arithmetic/output_table.py",
        "-int(parameters.y_zero_point)",
        "int(parameters.y_zero_point)",
        "The kernel's table begins with the entry of the zero point.",
        (f"{OUTPUT_TABLE}::test_it_is_that_of_two_kernels",),
    ),
    Mutant(
        "output table: turned although the zero point is in the index",
        "src/qconv/arithmetic/output_table.py",
        'return quantization.y_zero_point and quantization.mode.zero_point_add == "after_round"',
        "return quantization.y_zero_point",
        "A zero point that is added before the rounding is counted twice.",
        (f"{OUTPUT_TABLE}::test_the_kernel_that_serves_everything_is_the_oracle",),
    ),
    Mutant(
        "output table: several outputs are packed first",
        "src/qconv/arithmetic/epilogue.py",
        "return quantization.requantizes and rounds_so and not quantization.table",
        "return quantization.requantizes and rounds_so",
        "What is packed is no byte that could be an index.",
        (f"{OUTPUT_TABLE}::test_it_is_that_of_two_kernels",),
    ),
    Mutant(
        "output table: within a chain",
        "src/qconv/problem/chain.py",
        "        if given.table:",
        "        if False:",
        "The next layer pads with a zero point that is not its input's.",
        (f"{OUTPUT_TABLE}::test_what_is_refused",),
    ),
    Mutant(
        "output table: entries beyond the output's type",
        "src/qconv/arithmetic/parameter.py",
        'or not ((array >= low) & (array <= high)).all():\n        raise ValueError(\n            f"table',
        'or False:\n        raise ValueError(\n            f"table',
        "They would wrap round in silence.",
        (f"{OUTPUT_TABLE}::test_what_is_refused",),
    ),
    Mutant(
        "library: a table from its first entry on",
        "instances/library/qconv_parameters.h",
        " + i + static_cast<unsigned>(first)) % TABLE_ENTRIES",
        " + i) % TABLE_ENTRIES",
        "The kernel's table begins with the entry of the zero point.",
        ("tests/qconv/arithmetic/test_host_value.py::test_every_value_is_the_same_bit_for_bit",),
    ),
    Mutant(
        "fold: a table where another layer reads the convolution",
        "src/qconv/network/layers/folds.py",
        "if convolution.y != table.x or network.only_consumer(convolution.y) != table.layer:",
        "if convolution.y != table.x:",
        "The other reader finds no tensor, or another one.",
        (f"{FOLD_TABLE}::test_what_is_left_alone",),
    ),
    Mutant(
        "fold: a table of another type",
        "src/qconv/network/layers/folds.py",
        "if len(types) > 1 or not convolution.is_single:",
        "if not convolution.is_single:",
        "The kernel's output has the type of its index.",
        (f"{FOLD_TABLE}::test_the_pass_alone",),
    ),
    Mutant(
        "fold: a second table",
        "src/qconv/network/layers/folds.py",
        " or not convolution.is_single:",
        " or convolution.added is not None:",
        "The first one would be lost.",
        (f"{FOLD_TABLE}::test_the_pass_alone",),
    ),
    Mutant(
        "quantization: a table behind QLinearAdd",
        "src/qconv/arithmetic/quantization.py",
        "if self.table and self.mode.requantizes_before_residual:",
        "if False:",
        "The sum's epilogue looks nothing up.",
        (f"{OUTPUT_TABLE}::test_what_is_refused", f"{FOLD_TABLE}::test_a_sum_behind_a_function_stays"),
    ),
    Mutant(
        "chained: a table in the middle",
        "src/qconv/network/run/chained.py",
        "not all(one.is_single for one in before)",
        "any(one.added for one in before)",
        "The chain refuses it when its problem is made.",
        ("tests/qconv/network/run/test_chained.py::test_a_table_is_the_last_ones",),
    ),
    Mutant(
        "arrange: who takes all sums takes all tables",
        "src/qconv/network/run/arrange.py",
        "return self.choices.tables if fusion.served.has_table else self.choices.sums",
        "return self.choices.sums",
        "Where nobody has chosen, times decide.",
        (f"{FOLD_TABLE}::test_whichever_was_measured_to_be_faster",),
    ),
)
