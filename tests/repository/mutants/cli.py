"""Mutants of the command's first contact: help, tables, progress."""

from mutants.mutant import Mutant

TABLE, TOPICS = "tests/qconv/cli/test_table.py", "tests/qconv/cli/test_topics.py"

MUTANTS = (
    Mutant(
        "table: columns keep their width",
        "src/qconv/cli/table.py",
        "        widths = fitted(widths, columns)\n",
        "        pass\n",
        "A row of a table takes three lines of a terminal.",
        (TABLE,),
    ),
    Mutant(
        "table: a column that says nothing stays",
        "src/qconv/cli/table.py",
        "if not rows or any(row[at] for row in rows)]",
        "]",
        "Reasons that nobody has take room from what is there.",
        (TABLE,),
    ),
    Mutant(
        "topics: every op has the options of all",
        "src/qconv/cli/topics.py",
        "for option in op.options]\n    formatter",
        "for option in {o.name: o for other in OPS for o in other.options}.values()]\n    formatter",
        "The help offers what the op refuses.",
        (TOPICS,),
    ),
    Mutant(
        "options: choices stand in one word",
        "src/qconv/cli/options.py",
        'if len("|".join(option.choices)) > MOST_CHOICES:',
        "if False:",
        "A line of the help is wider than the terminal.",
        (TOPICS,),
    ),
    Mutant(
        "options: an op takes the options of all",
        "src/qconv/cli/options.py",
        "        if op.name in owners:\n",
        "        if owners:\n",
        "An option that the op does not have is accepted, and forgotten.",
        ("tests/qconv/cli/test_refusals.py",),
    ),
    Mutant(
        "build: an op's flags are forgotten",
        "src/qconv/cli/options.py",
        "            words = (str(_problem(words[0], given)),)\n",
        "            _problem(words[0], given)\n",
        "All tuned problems of the op are built, in place of the one that was described.",
        ("tests/qconv/cli/test_refusals.py",),
    ),
    Mutant(
        "failures: a package of an extra is the installation's",
        "src/qconv/cli/incomplete.py",
        ' if "extra ==" not in one)',
        ")",
        "Whoever lacks CuPy is told to install what does not bring it.",
        ("tests/qconv/cli/test_failures.py",),
    ),
    Mutant(
        "main: a package that every command needs is not waited for",
        "src/qconv/cli/__init__.py",
        "    except ModuleNotFoundError as missing:\n",
        "    except PermissionError as missing:\n",
        "Half an installation is a traceback.",
        ("tests/qconv/cli/test_incomplete.py",),
    ),
    Mutant(
        "failures: a module of ours is a package to install",
        "src/qconv/cli/incomplete.py",
        '    if missing == "qconv":\n        return None\n',
        "",
        "A bug of ours is told as if something were missing.",
        ("tests/qconv/cli/test_incomplete.py",),
    ),
    Mutant(
        "options: -q is not remembered",
        "src/qconv/cli/options.py",
        "ctx.meta[_QUIET] = value",
        "ctx.meta[_QUIET] = False",
        "Progress is printed where none was wanted.",
        ("tests/qconv/cli/test_progress.py",),
    ),
)
