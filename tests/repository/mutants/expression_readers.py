"""Mutants of the readers of layers as expressions."""

from mutants.mutant import Mutant

ELEMENTWISE, ACTIVATIONS, QUANTIZATION = (
    f"expressions/readers/test_{name}.py" for name in ("elementwise", "activations", "quantization")
)

MUTANTS = (
    Mutant(
        "elementwise: nothing is narrowed",
        "elementwise",
        "narrowed(function(*(at(indices) for at in elements)), dtype)",
        "function(*(at(indices) for at in elements))",
        "The next function reads an int8 beyond its range, or a half that was not rounded.",
        (ACTIVATIONS + "::test_halves_round_once_in_a_chain",),
    ),
    Mutant(
        "shift: signs do not fill",
        "_shifted_right",
        'call("less", x, number(0, x.dtype))',
        'call("less", x, x)',
        "A negative number becomes a positive one.",
        (ELEMENTWISE + "::test_shifts_may_be_by_more_than_all_bits",),
    ),
    Mutant(
        "modulo of floats: the sign of the dividend",
        "_float_modulo",
        'call("add", rest, b)',
        "rest",
        "A remainder without fmod has the sign of the divisor.",
        (ELEMENTWISE + "::test_remainders_of_floats",),
    ),
    Mutant(
        "power: a negative exponent is its magnitude",
        "_whole_power",
        'call("divide", constant(1), x), x)',
        "x, x)",
        "2 to the -1 is 0 among integers, not 2.",
        (ELEMENTWISE + "::test_powers_of_integers",),
    ),
    Mutant(
        "batch normalization: channels are last",
        "batch_normalization",
        "min(1, len(x.shape) - 1)",
        "len(x.shape) - 1",
        "Channels are the second axis.",
        (ELEMENTWISE + "::test_batch_normalization_of_any_rank",),
    ),
    Mutant(
        "is_infinite: one sign is both",
        "is_infinite",
        "Number(sign * inf)",
        "Number(inf)",
        "The attributes say which infinities are found.",
        (ELEMENTWISE + "::test_infinities_and_nans",),
    ),
    Mutant(
        "softplus: only the part that does not overflow",
        "softplus",
        "add(maximum(x, ZERO), log1p(below))",
        "log1p(below)",
        "ln(1 + e**x) is about x for a large x.",
        (ACTIVATIONS + "::test_activations",),
    ),
    Mutant(
        "quantize: the zero point decides ties",
        "quantized",
        'value = call("add", call("round", value), converted(zero, "float32"))',
        'value = call("round", call("add", value, converted(zero, "float32")))',
        "With an odd zero point, ties would be rounded to odd numbers.",
        (QUANTIZATION + "::test_quantize",),
    ),
    Mutant(
        "quantize: blocks are interleaved",
        "_along",
        "indices[axis] // block,",
        "indices[axis] % -(-shape[axis] // block),",
        "A block is of neighbours.",
        (QUANTIZATION + "::test_dequantize",),
    ),
    Mutant(
        "quantized sums: rounded before the zero point",
        "_quantized_op",
        "rounds_last=count > 1",
        "rounds_last=False",
        "ONNX Runtime adds the zero point of a sum before it rounds.",
        (QUANTIZATION + "::test_quantized_functions",),
    ),
    Mutant(
        "dropout: a training one is split",
        "one_output_each",
        'layer.op == "Dropout" and len(layer.inputs) < 3',
        'layer.op == "Dropout"',
        "Its output and its mask come from the same random numbers.",
        ("layers/test_concatenation.py::test_a_dropout_has_one_output_each_unless_it_trains",),
    ),
    Mutant(
        "fusion: only inferred shapes",
        "_Fusion._input",
        "self.shapes.get(name, tensor.extents)",
        "tensor.extents",
        "A layer that reads a computed scalar would run elsewhere.",
        ("expressions/test_fuse.py::test_a_made_scalar_has_a_shape_without_inference",),
    ),
    Mutant(
        "fusion: outputs are unfolded to their layer",
        "fuse.py",
        "if len(layer.parts) > 1 else (layer,)",
        "if layer.parts else (layer,)",
        "A Split with two outputs is no expression.",
        ("expressions/test_fuse.py::test_an_output_of_a_layer_with_several_stays_a_layer",),
    ),
    Mutant(
        "space to depth: one order",
        "space_to_depth",
        'is_dcr = reader.attribute("mode", "DCR") == "DCR"',
        "is_dcr = True",
        "CRD has the channel of the image first.",
        ("readers/test_movement_ops.py::test_space_to_depth_undoes_depth_to_space",),
    ),
)
