"""Mutants of the random data that every other test sees with."""

from mutants.mutant import Mutant

SAMPLE = "test_registry_sample.py::"
SPREAD = SAMPLE + "test_outputs_vary[problems]"
CHOSEN, LARGE = (
    SAMPLE + "test_zero_points_that_the_caller_chose_are_kept",
    SAMPLE + "test_a_large_layer_is_calibrated_on_a_few_of_its_outputs",
)
TIES = SAMPLE + "test_a_quarter_of_the_scales_are_powers_of_two_and_make_ties"
ENDS = SAMPLE + "test_zero_points_at_the_ends_and_saturated_outputs_occur"

MUTANTS = (
    Mutant(
        "sample: no powers of two",
        "convolution",
        "POWERS_OF_TWO, COARSE = 0.25, 0.75",
        "POWERS_OF_TWO, COARSE = 0.0, 0.75",
        "A tie is exact only where scales are powers of two.",
        (TIES,),
    ),
    Mutant(
        "sample: no coarse operands",
        "convolution",
        "POWERS_OF_TWO, COARSE = 0.25, 0.75",
        "POWERS_OF_TWO, COARSE = 0.25, 0.0",
        "Ties are rare where operands are anything.",
        (TIES,),
    ),
    Mutant(
        "draft: the first attempt is good enough",
        "draw_layer",
        "        if drawn.lacks:\n            continue\n",
        "",
        "Some draws give outputs of few values.",
        (SAMPLE + "test_what_lacks_variety_is_drawn_again",),
    ),
    Mutant(
        "draft: nobody knows why",
        "_why",
        "if fixed:",
        "if not fixed:",
        "A sample that cannot see says so.",
        (SAMPLE + "test_a_zero_point_that_forbids_all_outputs_but_one_is_named",),
    ),
    Mutant(
        "draft: zero points that were chosen are drawn",
        "Attempt._zero_point",
        "if name in self.fixed:",
        "if name in ():",
        "The caller's zero points are kept.",
        (CHOSEN,),
    ),
    Mutant(
        "draft: filters follow the few pixels looked at",
        "Attempt._means",
        "by_tap.mean(axis=2, keepdims=True)",
        "by_tap",
        "The sums of all other pixels lie elsewhere.",
        (SAMPLE + "test_filters_are_placed_for_all_pixels_not_for_those_looked_at",),
    ),
    Mutant(
        "calibration: nothing saturates",
        "output",
        "beyond = (0.0, 0.0) if style.attempt else",
        "beyond = (0.0, 0.0) if style.attempt >= 0 else",
        "A clamp that is left out would not show.",
        (ENDS,),
    ),
    Mutant(
        "calibration: outputs fill a hundredth of the type",
        "output",
        "filled = 1.0 if style.attempt or rng.random() < 0.25 else rng.uniform(0.6, 1.0)",
        "filled = 0.01",
        "Outputs of few values hide wrong ones.",
        (SPREAD,),
    ),
    Mutant(
        "calibration: values far from the bend",
        "bias",
        "whole = np.rint(wanted * total - sums.center - mean / unit)",
        "whole = np.rint(wanted * total + 9 * total - sums.center - mean / unit)",
        "An activation is met on both sides of its bend.",
        (SAMPLE + "test_activations_are_met_on_both_sides_of_their_bends[relu]",),
    ),
    Mutant(
        "operands: no zero points at an end",
        "operands",
        "IN_THE_MIDDLE, AT_AN_END = 0.3, 0.2",
        "IN_THE_MIDDLE, AT_AN_END = 0.3, 0.0",
        "The ends are where corrections overflow a type first.",
        (ENDS,),
    ),
    Mutant(
        "operands: coarse ones are as fine as the others",
        "coarse",
        "(np.abs(difference) // COARSE * COARSE)",
        "np.abs(difference)",
        "Ties are rare where operands are anything.",
        (TIES,),
    ),
    Mutant(
        "variety: few values are enough",
        "Variety.has_few_values",
        "self.values < LEAST_VALUES",
        "self.values < 2",
        "An output of few values is right however the kernel found it.",
        (SAMPLE + "test_variety_names_the_rule_that_is_broken",),
    ),
    Mutant(
        "variety: a dead channel lives",
        "Variety.lacks",
        "if self.dead_channels:",
        "if self.dead_channels < 0:",
        "What is wrong in a constant channel does not show.",
        (SAMPLE + "test_variety_names_the_rule_that_is_broken",),
    ),
    Mutant(
        "window: padding at the other end",
        "_sources",
        "step_h - top +",
        "step_h + top +",
        "Sums of other windows calibrate nothing.",
        (LARGE,),
    ),
    Mutant(
        "window: the first group for all",
        "gathered",
        "return grouped[:, seen.taps].reshape(",
        "return grouped[:1, seen.taps].repeat(problem.groups, 0).reshape(",
        "Every group has input channels of its own.",
        (SPREAD,),
    ),
)
