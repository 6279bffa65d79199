"""Mutants of the rules of the house: the ladder, the counts, the documents, the examples, the scripts of bench."""

from mutants.mutant import Mutant

LADDER, HOUSE, DOCUMENTS = (
    "test_ladder.py",
    "test_house.py::",
    "test_documents.py",
)
SEES = HOUSE + "test_a_count_sees_what_it_counts"

MUTANTS = (
    Mutant(
        "ladder: a circle above the first rung",
        "folders",
        "pathlib import Path",
        "pathlib import Path\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n"
        "    from qconv.device import cpu_runtime",
        "What knows the folders and what compiles into them would be one module in two files.",
        (LADDER,),
    ),
    Mutant(
        "ladder: an import from above, for a type only",
        "measurement",
        "__future__ import annotations",
        "__future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n"
        "    from qconv.tuner.measure import protocol",
        "The database knows nothing of the tuner.",
        (LADDER,),
    ),
    Mutant(
        "house: a string that says if",
        "inline_conditionals",
        'STRING.sub("", expression[1])',
        "expression[1]",
        "C++ that an expression prints may have an if.",
        (SEES,),
    ),
    Mutant(
        "house: one line too many",
        "functions_too_long",
        "(node.end_lineno or node.lineno) - node.lineno + 1",
        "(node.end_lineno or node.lineno) - node.lineno",
        "The last line of a function is one of its lines.",
        (SEES,),
    ),
    Mutant(
        "house: a function within another",
        "duplicated_functions",
        " and not one.overlaps(other):",
        ":",
        "A function has all lines of those that are defined within it, and is no copy of them.",
        (HOUSE + "test_functions_that_only_look_alike_are_no_pair",),
    ),
    Mutant(
        "house: one more than the limit",
        "wrong",
        "if len(here) > limit:",
        "if len(here) > limit + 1:",
        "What is above its limit fails.",
        (HOUSE + "test_above_and_below_a_limit_are_both_wrong",),
    ),
    Mutant(
        "house: a limit that nobody lowers",
        "wrong",
        "elif len(here) < limit:",
        "elif not here and limit:",
        "A limit above its count lets the count rise again.",
        (HOUSE + "test_above_and_below_a_limit_are_both_wrong",),
    ),
    Mutant(
        "house: a word within a name is no word",
        "foreign_words",
        "{word.lower() for word in WORD.findall(name)}",
        "{name}",
        "A name has several words.",
        (SEES,),
    ),
    Mutant(
        "house: a comment that goes on",
        "python_sentences",
        "if not (alone and token.start[0] == goes_on):",
        "if True:",
        "The second line of a comment is not where it begins.",
        (SEES,),
    ),
    Mutant(
        "documents: an option of another name",
        "parsed",
        '"--blocks", action',
        '"--three", dest="blocks", action',
        "A command of bench/README.md is refused.",
        (DOCUMENTS,),
    ),
    Mutant(
        "documents: a new option that is required",
        "run",
        'parser.add_argument("--device")',
        'parser.add_argument("--device", required=True)',
        "A command of bench/README.md is refused.",
        (DOCUMENTS,),
    ),
    Mutant(
        "documents: a command of another name",
        "list_rows",
        '@db.command("list")',
        '@db.command("show")',
        "README says `qconv-tune db list`.",
        (DOCUMENTS,),
    ),
    Mutant(
        "example: parameters forgotten",
        "layer",
        "instance.bind(x, w, **data.parameters)",
        "instance.bind(x, w, **{**data.parameters, 'y_scale': 1.0})",
        "The oracle was given another scale.",
        ("test_examples.py",),
    ),
    Mutant(
        "bench: a peer that is right somewhere",
        "prepare",
        "(y == case.expected).all()",
        "(y == case.expected).any()",
        "A peer that computes something else is timed.",
        ("test_simt.py",),
        slow=True,
    ),
)
