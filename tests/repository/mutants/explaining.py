"""Mutants of what a session says of its layers and of what it is given."""

from mutants.mutant import Mutant

LAST_RUN, ASKED = "test_recorded_last_run.py", "onnx/test_options.py"

MUTANTS = (
    Mutant(
        "network: a run that is replayed is not told of",
        "Runner._replayed",
        "        self._last_run.again(recorded.ran)\n",
        "",
        "explain() tells of the last new shape.",
        (LAST_RUN + "::test_an_explanation_is_of_the_last_run",),
    ),
    Mutant(
        "network: a layer is told to run as for the last new shape",
        "Runner._prepare",
        "self._last_run.chosen[served.layer.key] = made",
        "self._last_run.chosen.setdefault(served.layer.key, made)",
        "explain() tells of the first shape for ever.",
        (LAST_RUN + "::test_an_explanation_is_of_the_last_run",),
    ),
    Mutant(
        "session: an input that is missing goes unnamed where another is not known",
        "check_inputs",
        "if name not in given]",
        "if name not in given and not unknown]",
        "A misspelled input does not tell which one was meant.",
        (ASKED,),
    ),
    Mutant(
        "network: a weight's zero point that is computed has the reason of any constant",
        "_zero_points",
        'for number, what in ((2, "x_zero_point"), (3, "w_zero_point")):',
        'for number, what in ((2, "x_zero_point"),):',
        "explain() does not name quantize_dynamic, nor the remedy.",
        ("layers/test_convolution.py::test_what_is_not_served_says_why",),
    ),
    Mutant(
        "session: a layer that only converts has the reason of its op",
        "lower",
        "(why_not | left | outside).items()",
        "(outside | left | why_not).items()",
        "No kernel is said to compute QuantizeLinear, beside layers where one does.",
        ("onnx/test_lowering.py::test_a_layer_that_quantizes_between_floats_says_whose_they_are",),
    ),
)
