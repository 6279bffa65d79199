"""Mutants of the report and of what it draws."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "charts: a logarithm of the wrong axis",
        "Axis.place",
        "if self.log:",
        "if not self.log:",
        "Points would stand elsewhere than their values.",
        ("test_charts.py",),
    ),
    Mutant(
        "charts: words as they come",
        "_text",
        'f"{escape(says)}</text>"',
        'f"{says}</text>"',
        "A reason with < in it would break the picture.",
        ("test_charts.py::test_words_are_escaped_and_a_figure_alone_has_its_colours",),
    ),
    Mutant(
        "png: upside down",
        "write",
        "ylim=(high, 0)",
        "ylim=(0, high)",
        "An SVG counts from the top.",
        ("test_charts_png.py::test_marks_stand_where_the_svg_has_them",),
    ),
    Mutant(
        "report: a network's time without the layers whose time is unknown",
        "report/network.py",
        "None if None in known else sum(time or 0.0 for time in known)",
        "sum(time or 0.0 for time in known)",
        "The network would seem faster than it is.",
        ("report/test_network.py::test_what_it_says",),
    ),
    Mutant(
        "report: chance explains the times",
        "_explained",
        "groups.setdefault(value, []).append(log)",
        "groups.setdefault(len(groups) % 2, []).append(log)",
        "The field that decides the time is the one named.",
        ("report/test_report.py::test_a_field_that_decides_the_time_explains_it",),
    ),
    Mutant(
        "report: the last time instead of the best so far",
        "Layer.convergence",
        "best = min(best, row.median_us or math.inf)",
        "best = row.median_us or math.inf",
        "A failure would look like a search that lost what it had found.",
        ("report/test_report.py::test_what_it_says_of_a_layer",),
    ),
    Mutant(
        "report: rows in the order of their races",
        "read",
        "rows = database.measurements(device=device)",
        "rows = sorted(database.measurements(device=device), key=lambda row: row.created_at)",
        "Every winner would seem to be found by the last trials.",
        ("report/test_report.py::test_a_winner_that_was_raced_later_was_found_when_it_was_measured_first",),
    ),
    Mutant(
        "report: what only moves bytes is under the roofline",
        "roofline",
        "for one in report.layers if one.tops]",
        "for one in report.layers]",
        "No operations have no logarithm, and there is no report.",
        ("report/test_report.py::test_what_only_moves_bytes_has_no_place_under_the_roofline",),
    ),
    Mutant(
        "roofline: the smaller of the two bounds",
        "Roofline.floor_us",
        "return max(problem.operations",
        "return min(problem.operations",
        "No kernel is faster than the slower of both.",
        ("report/test_report.py::test_what_it_says_of_a_layer",),
    ),
)
