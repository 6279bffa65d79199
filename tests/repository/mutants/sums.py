"""Mutants of convolutions that requantize their own output before they add a residual."""

from mutants.mutant import Mutant

REQUANTIZED_SUM = "test_quantized_sum.py"
OF_SUM = "test_onnxruntime_residual.py::test_all_pairs_of_bytes"

MUTANTS = (
    Mutant(
        "weighted sum: the offset has the terms turned round",
        "offset",
        "of_first = ratio",
        "first, last = last, first\n    of_first = ratio",
        "The product of the tensor that is added last is rounded within the sum.",
        (OF_SUM,),
    ),
    Mutant(
        "requantized sum: the other tensor first",
        "_add",
        "first, last = (OWN, RESIDUAL) if quantization",
        "last, first = (OWN, RESIDUAL) if quantization",
        "Which of the two the sum begins with decides last bits.",
        (OF_SUM,),
    ),
    Mutant(
        "requantized sum: the oracle does not clamp between the two",
        "_requantize_own",
        'np.clip(np.rint(value) + v.get("inner_zero", np.float32(0)), low, high)',
        'np.rint(value) + v.get("inner_zero", np.float32(0))',
        "What the convolution alone would saturate at, the residual cannot bring back.",
        (REQUANTIZED_SUM,),
    ),
    Mutant(
        "requantized sum: its own output is not rounded",
        "_requantize_own",
        '"tile::rounded(value, channel.inner_zero)" if has_zero else "tile::rounded(value)"',
        '"tile::add(value, channel.inner_zero)" if has_zero else "value"',
        "The kernel rounds twice, as two kernels would.",
        (f"{REQUANTIZED_SUM}::test_the_kernels_are_the_oracle",),
    ),
    Mutant(
        "requantized sum: relu at the real zero",
        "_store",
        "has_zero = is_relu and quantization.y_zero_point",
        "has_zero = False",
        "A relu of the real number is a clamp at the output's zero point.",
        (REQUANTIZED_SUM,),
    ),
    Mutant(
        "epilogue: its own output in the units of the sum",
        "multiplier",
        "y_scale = parameters.inner_scale",
        "y_scale = parameters.y_scale",
        "What is requantized first has a scale of its own.",
        (REQUANTIZED_SUM, OF_SUM),
    ),
    Mutant(
        "host value: the sum's offset has the terms turned round",
        "_sum_offset",
        'first, last = ("inner", "residual") if',
        'last, first = ("inner", "residual") if',
        "A program that launches without Python has the same bits.",
        ("test_host_value.py",),
    ),
    Mutant(
        "parameter: any ratio of scales",
        "check_ratio",
        "if not LEAST_RATIO <= ratio <= most:",
        "if not LEAST_RATIO <= ratio:",
        "Beyond, ONNX Runtime converts to the wrong end of the type.",
        (f"{REQUANTIZED_SUM}::test_what_cannot_be_honoured_is_refused",),
    ),
)
