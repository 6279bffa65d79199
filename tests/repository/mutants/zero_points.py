"""Mutants of dynamic quantization in networks: zero points of the run, and layers with several outputs."""

from mutants.mutant import Mutant

TAPS = "layers/test_tap_sums.py::test_every_pixel_has_the_sum_over_the_taps_inside"
SCALED = "layers/test_zero_points.py::test_a_product_to_floats_is_scaled_as_quantize_dynamic_writes_it"
OUTPUTS = "layers/test_dynamic.py::test_the_outputs_are_those_of_onnxruntime"
MATRIX = "readers/test_without_zero_point.py::test_a_matrix_has_one_sum_for_each_output"

MUTANTS = (
    Mutant(
        "tap sums: a tap behind the last pixel counts",
        "_sets",
        "(places < size)",
        "(places <= size)",
        "It lies in the padding, where the kernel adds nothing.",
        (TAPS,),
    ),
    Mutant(
        "tap sums: the zero points of the weights are left out",
        "TapSums.of",
        " - np.reshape(zero_point, (-1, 1, 1, 1)).astype(np.int64)",
        "",
        "The kernel multiplies by the difference.",
        (TAPS,),
    ),
    Mutant(
        "tap sums: both axes have the pad above",
        "TapSums.of",
        "across, left, problem.s",
        "across, top, problem.s",
        "Pads of the two axes differ.",
        (TAPS,),
    ),
    Mutant(
        "tap sums: one set for each pixel",
        "_sets",
        "found.astype(np.int64), numbers.reshape(-1).astype(np.int32)",
        "found[numbers.reshape(-1)].astype(np.int64), np.arange(outputs).astype(np.int32)",
        "The sums are as large as the output, and read as often.",
        ("layers/test_tap_sums.py::test_only_borders_have_sums_of_their_own",),
    ),
    Mutant(
        "without a zero point: columns are rows",
        "without_zero_point",
        "(rows(row), columns(column), output)",
        "(rows(column), columns(row), output)",
        "The borders of the two axes are others.",
        ("readers/test_without_zero_point.py::test_a_pixel_has_the_sums_of_its_row_and_its_column",),
    ),
    Mutant(
        "without a zero point: a vector belongs to the batch",
        "readers/without_zero_point.py",
        "zero.at((indices[-2],))",
        "zero.at((indices[0] + Index() * 2,))",
        "It has one zero point for each row of a matrix.",
        (MATRIX,),
    ),
    Mutant(
        "without a zero point: images have vectors as well",
        "readers/without_zero_point.py",
        "if not axes and zero.shape == sums.shape[-2:-1]:",
        "if zero.shape == sums.shape[-2:-1] or zero.shape == sums.shape[-1:]:",
        "ConvInteger has one zero point, and an image's last axes are no rows.",
        ("readers/test_without_zero_point.py::test_other_zero_points_are_refused",),
    ),
    Mutant(
        "zero points: a known one is left out",
        "_Parts.add_product",
        '(x, w, zero if is_known else "", w_zero)',
        '(x, w, "", w_zero)',
        "Nothing behind the kernel subtracts it.",
        ("layers/test_zero_points.py::test_a_product_to_floats_with_a_known_zero_point_needs_no_correction",),
    ),
    Mutant(
        "zero points: the sum is scaled twice",
        "_Parts.add_scaled_product",
        '"Mul", (real, scale), (scaled,)',
        '"Mul", (real, scales[0]), (scaled,)',
        "The scales of the weights are lost.",
        (SCALED,),
    ),
    Mutant(
        "zero points: a scale for each row is one of each column",
        "_Parts._product_of_scales",
        "if a not in ((), (1,)):",
        "if len(a) > 1:",
        "ONNX's product broadcasts a vector along the last axis.",
        ("layers/test_zero_points.py::test_a_product_with_a_scale_for_each_row_stays_whole",),
    ),
    Mutant(
        "dynamic: the high byte is the zero point",
        "_as_byte",
        "[:1]",
        "[3:4]",
        "It is 0.",
        (OUTPUTS,),
    ),
    Mutant(
        "dynamic: bytes are in the model's order",
        "DynamicQuantized.outputs",
        "last_of(x.shape) if x.is_channels_last else x.shape",
        "x.shape",
        "They are in the order of the floats.",
        ("layers/test_dynamic.py::test_bytes_are_in_the_order_of_the_floats",),
    ),
    Mutant(
        "dynamic: an output without a name is one",
        "DynamicQuantized.outputs",
        "strict=False) if name}",
        "strict=False)}",
        "Nobody reads it.",
        ("layers/test_dynamic.py::test_outputs_that_nobody_reads_have_no_names",),
    ),
    Mutant(
        "dynamic: scalars have no shape",
        "with_scalars",
        "network.tensor(name).dtype, ())",
        "network.tensor(name).dtype)",
        "Expressions read tensors of known shapes.",
        ("layers/test_dynamic.py::test_scales_and_zero_points_have_a_shape",),
    ),
    Mutant(
        "runner: further outputs are not copied for the caller",
        "Runner.__init__",
        "frozenset(name for one in served.values() for name in one.layer.outputs)",
        "frozenset(one.y for one in served.values())",
        "The next run overwrites them.",
        ("onnx/test_session_dynamic.py::test_outputs_of_a_run_are_not_overwritten_by_the_next",),
    ),
    Mutant(
        "lowering: what is left of a product runs elsewhere alone",
        "_lowered_to_integers",
        "{**whole, **left}) if left else made",
        "{**whole, **left}) if not made else made",
        "ONNX Runtime lacks the inputs of the product.",
        (
            "onnx/test_session_dynamic.py"
            "::test_a_product_whose_zero_points_have_another_shape_runs_elsewhere_as_a_whole",
        ),
    ),
    Mutant(
        "expressions: the tables of an index are operands in any order",
        "_with_tables",
        "for table in sorted(index.tables)}",
        "for table in index.tables}",
        "Another process does not find the kernel of a built folder, whose key names the operands.",
        ("expressions/test_kernel.py::test_the_tables_of_an_index_are_operands_in_the_order_of_their_names",),
    ),
    Mutant(
        "explaining: a layer is named once for each of its parts",
        "_parts_of",
        "{part.name: part.op for part in layer.unfolded}.values()",
        "(part.op for part in layer.unfolded)",
        "A product that became several layers is one layer of the model.",
        ("onnx/test_session_dynamic.py::test_a_small_network_runs_on_kernels",),
    ),
)
