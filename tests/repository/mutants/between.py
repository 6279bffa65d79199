"""Mutants of the layers between the convolutions of a network."""

from mutants.mutant import Mutant

HERE = "src/qconv/network/"
POOLING = "tests/qconv/network/test_pooling.py"

MUTANTS = (
    Mutant(
        "between: every average of a window is one of real numbers",
        HERE + "pooling.py",
        'self.kind is AveragePool and tuple(sizes) == window and not any(spec["pad"])',
        "False",
        "ONNX Runtime adds the integers of a whole image; the problem of a window refuses one, and it runs elsewhere.",
        (POOLING,),
    ),
    Mutant(
        "between: a pool forgets ceil_mode",
        HERE + "pooling.py",
        'bool(self.attributes.get("ceil_mode", 0))',
        "False",
        "Windows at the end are missing.",
        (POOLING,),
    ),
    Mutant(
        "between: padding never counts",
        HERE + "pooling.py",
        'bool(self.attributes.get("count_include_pad", 0))',
        "False",
        "Averages at the borders are too large.",
        (POOLING,),
    ),
    Mutant(
        "between: one axis of a window is the height",
        HERE + "pooling.py",
        "shape, filters = (n, *ones, *sizes, c), (*ones, *window)",
        "shape, filters = (n, *sizes, *ones, c), (*window, *ones)",
        "Strides and pads are of the width.",
        (POOLING,),
    ),
    Mutant(
        "between: padding by rule with gaps",
        HERE + "pooling.py",
        'auto_pad_of(attributes).startswith("SAME") and any(gap != 1 for gap in gaps)',
        "False",
        "ONNX Runtime pads as if there were no gaps.",
        (POOLING,),
    ),
    Mutant(
        "between: less than no padding",
        HERE + "pooling.py",
        "if (-(-size // step) - 1) * step + span < size:",
        "if False:",
        "ONNX Runtime leaves out the first pixels, the kernels the last.",
        (POOLING,),
    ),
    Mutant(
        "between: an order of channels that the kernels do not have",
        HERE + "pooling.py",
        'reading.layer.attributes.get("channels_last", 0)',
        "False",
        "Channels are taken for pixels.",
        (POOLING,),
    ),
    Mutant(
        "between: the indices of a max pool are not asked for",
        HERE + "pooling.py",
        "if len(reading.layer.outputs) > 1:",
        "if False:",
        "Whoever reads them finds nothing.",
        (POOLING,),
    ),
)
