"""Mutants of what a session says of its layers and of what it is given."""

from mutants.mutant import Mutant

LAST_RUN, ASKED = "test_recorded_last_run.py", "onnx/test_options.py"
REPORT, CAUSES = "run/test_report.py", "run/test_causes.py"

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
    Mutant(
        "report: the most layers are the first cause",
        "causes_of",
        "(-one.operations, -one.bytes, -len(one.layers))",
        "-len(one.layers)",
        "A deployer mends the weightiest cause first.",
        (REPORT + "::test_multiplications_are_counted_on_both_sides",),
    ),
    Mutant(
        "report: what follows is a cause",
        "causes_of",
        "root = _root(row, by_name)",
        "root = row",
        "A conversion is elsewhere because its neighbour is.",
        (REPORT + "::test_multiplications_are_counted_on_both_sides", CAUSES),
    ),
    Mutant(
        "causes: bytes do not count",
        "causes_of",
        "-one.operations, -one.bytes,",
        "-one.operations,",
        "Of layers that multiply nothing, those that move most cost most.",
        (CAUSES + "::test_bytes_decide_between_equal_multiplications",),
    ),
    Mutant(
        "report: a time stands at the last layer of an island",
        "Explanation.with_times",
        "one.layers[0]",
        "one.layers[-1]",
        "It would stand at another layer than that which begins.",
        (REPORT + "::test_a_profile_adds_measured_times",),
    ),
    Mutant(
        "session: advice with every run",
        "Session._values",
        "self._has_advised = True",
        "self._has_advised = False",
        "A program runs a session a million times.",
        ("onnx/test_session.py::test_a_session_warns_once_about_what_runs_elsewhere",),
    ),
    Mutant(
        "own names: a copy is the node itself",
        "adopt_names",
        "key=lambda at: kept[at] is None",
        "key=lambda at: at",
        "The part of a function has its name, and the node that ends it another.",
        ("onnx/test_own_names.py",),
    ),
    Mutant(
        "needs: the processor has the time of a GPU",
        "load/needs.py",
        'plan.target.vendor == "cpu" or ',
        "",
        "Cost models are of GPUs.",
        ("load/test_needs.py::test_a_layer_needs_what_its_kernels_need",),
    ),
    Mutant(
        "explain: a shape without a name",
        "cli/explain.py",
        "not name or not all",
        "not all",
        "It is of no input.",
        ("cli/test_explain.py::test_what_is_misspelled_is_named",),
    ),
)
