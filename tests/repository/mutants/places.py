"""Mutants of layers whose elements have computed places: gathers, samples and the largest elements."""

from mutants.mutant import Mutant

GATHERED = "readers/test_gathering.py"
SAMPLED = "readers/test_sampling.py"
LARGEST = "expressions/test_topk.py"

MUTANTS = (
    Mutant(
        "places: a computed index counts from the front alone",
        "_from_front",
        'call("select", is_behind, call("add", index, number(extent, index.dtype)), index)',
        "index",
        "An index of -1 is the first element, not the last.",
        (f"{GATHERED}::test_elements_at_computed_indices",),
    ),
    Mutant(
        "places: the axes of a tuple of indices are one apart",
        "gather_nd",
        "_scaled(_from_front(one, x.shape[batch + each]), step)",
        "_from_front(one, x.shape[batch + each])",
        "An index along a slower axis moves along the fastest.",
        (f"{GATHERED}::test_slices_at_computed_tuples_of_indices",),
    ),
    Mutant(
        "places: a place is not clamped from below",
        "Reader.placed",
        'call("maximum", place, Number(0, INT))',
        'call("maximum", place, Number(-1, INT))',
        "The problem refuses it: an index before the tensor would be read.",
        (f"{GATHERED}::test_it_runs_here",),
    ),
    Mutant(
        "places: a tensor with its channels last is read in that order",
        "Expressed.orders",
        "last and name not in self._placed",
        "last",
        "Places are counted in the model's order of axes.",
        (f"{GATHERED}::test_what_is_gathered_has_no_order_but_the_models",),
    ),
    Mutant(
        "places: what is read by place may stay lazy",
        "_Fusion._read",
        "name in placed or self",
        "self",
        "A computed tensor has no places: it is not in memory.",
        (f"{GATHERED}::test_a_computed_tensor_is_stored_in_the_models_order_first",),
    ),
    Mutant(
        "places: corners are those of the elements in any case",
        "Sampled.place",
        "if self.aligns_corners:",
        "if True:",
        "By default, 1 is the edge of the last element, not its center.",
        (f"{SAMPLED}::test_samples_of_images",),
    ),
    Mutant(
        "places: a mirror is at the edges in any case",
        "Sampled._reflected",
        "2 * (self.extent - self.aligns_corners)",
        "2 * self.extent",
        "With aligned corners the element at the border is not repeated.",
        (f"{SAMPLED}::test_samples_of_images",),
    ),
    Mutant(
        "places: zeros are the border",
        "Sampled.tap",
        'call("equal", index, clamped) if self.padding == "zeros" else None',
        "None",
        "An element outside counts as zero by default.",
        (f"{SAMPLED}::test_samples_of_images",),
    ),
    Mutant(
        "places: the first number is of the first axis",
        "grid_sample",
        "for number in range(len(axes))][::-1]",
        "for number in range(len(axes))]",
        "The first number is of the last axis.",
        (f"{SAMPLED}::test_samples_of_volumes",),
    ),
    Mutant(
        "places: a linear weight is that of the other tap",
        "_linear",
        'axis.tap(first, call("subtract", second, place)), axis.tap(second, call("subtract", place, first))',
        'axis.tap(first, call("subtract", place, first)), axis.tap(second, call("subtract", second, place))',
        "The nearer element counts more.",
        (f"{SAMPLED}::test_samples_of_images",),
    ),
    Mutant(
        "places: of equal elements the last comes first",
        "ranks",
        'call("less", Position(Index.of(column)), Position(indices[axis]))',
        'call("less", Position(indices[axis]), Position(Index.of(column)))',
        "ONNX Runtime takes the first of equals.",
        (f"{LARGEST}::test_values_and_places",),
    ),
    Mutant(
        "places: the least are the largest",
        "ranks",
        'low, high = (own, other) if reader.attribute("largest") else (other, own)',
        "low, high = own, other",
        "With largest=0 a row begins with its least element.",
        (f"{LARGEST}::test_values_and_places",),
    ),
    Mutant(
        "places: a NaN has no rank",
        "_ordered",
        "if node.dtype == FLOAT else node",
        "if False else node",
        "All NaN would have rank 0, and the places of a row would be sums of several.",
        (f"{LARGEST}::test_a_nan_has_the_place_of_infinity",),
    ),
    Mutant(
        "places: pairs of any number",
        "_ranked",
        " or prod(x.extents) * row > LARGEST",
        "",
        "A part of a TopK would run elsewhere, which no runtime knows.",
        (f"{LARGEST}::test_what_runs_elsewhere_is_whole",),
    ),
)
