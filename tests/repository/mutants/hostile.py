"""Mutants of what refuses hostile input, and of the suite that brings it."""

from mutants.mutant import Mutant

FUZZ, KILLED = "test_fuzz.py", "test_killed.py"

MUTANTS = (
    Mutant(
        "messages: a value is quoted whole",
        "quoted",
        'return text if len(text) <= 160 else text[:157] + "..."',
        "return text",
        "A refusal is as long as what was refused.",
        (FUZZ,),
    ),
    Mutant(
        "failures: control characters go to the terminal",
        "Failure.show",
        'print(f"Error: {readable(self.message)}", file=sys.stderr)',
        'print(f"Error: {self.message}", file=sys.stderr)',
        "A file name that is quoted moves the cursor and changes colours.",
        (FUZZ,),
    ),
    Mutant(
        "cache: a record of any types is taken",
        "_resources",
        "if not unknown and (type(value) is not int or value < 0):",
        "if False:",
        "An entry says that a kernel needs 'x' registers.",
        (FUZZ,),
    ),
    Mutant(
        "cache: a binary is published before it is whole",
        "publish",
        "entry = temporary / final.name",
        "entry = final",
        "A build that is killed leaves half an entry where the next one looks.",
        (KILLED,),
    ),
    Mutant(
        "database: triggers of a file run",
        "_with_schema",
        "    _check_triggers(engine, where)\n",
        "",
        "A database that somebody sent deletes rows when one is added.",
        ("tune_db/test_engine.py::test_a_file_with_a_trigger_is_refused",),
    ),
    Mutant(
        "database: a full disk hides what is stored",
        "open_engine",
        "if is_written and not create and _NO_ROOM in str(error).lower():",
        "if False:",
        "A lookup fails where there is no room for what SQLite writes beside a file that it only reads.",
        ("test_places.py::test_a_disk_that_is_full",),
        slow=True,
    ),
    Mutant(
        "database: a server that is restarted is given up",
        "Database._connect",
        'if self._engine.dialect.name == "sqlite" or time.monotonic() > end:',
        "if True:",
        "A tuner ends for the seconds that its server is away.",
        ("test_faults.py::test_a_server_that_is_restarted_in_the_middle",),
        slow=True,
    ),
    Mutant(
        "listing: a pair needs its activations",
        "chain",
        'rows[0].get("act1") or "none")]',
        'rows[0]["act1"])]',
        "A csv without that column is a KeyError.",
        (FUZZ,),
    ),
    Mutant(
        "fuzz: whatever is raised is a refusal",
        "judge",
        "        _check(error, surface.refusals)\n",
        "",
        "A traceback counts as a sentence.",
        (FUZZ,),
    ),
    Mutant(
        "traced: nothing is stopped",
        "_follow",
        "if at is not None and changes >= at and fails is None:",
        "if False:",
        "Every work ends as if there were no fault, and all that is asked of it holds.",
        (KILLED,),
    ),
)
