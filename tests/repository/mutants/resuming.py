"""Mutants of a tuning that goes on: whose rows count, and what is left to whom."""

from mutants.mutant import Mutant

SCHEDULE = "test_schedule.py"

CHILD = "test_child.py"

MUTANTS = (
    Mutant(
        "child: a signal from outside is the config's fault",
        "Child._death",
        "kind = Killed if code < 0 and -code not in FAULTS else Died",
        "kind = Died if code < 0 and -code not in FAULTS else Died",
        "Where memory was short once, a config fails for ever.",
        (CHILD,),
    ),
    Mutant(
        "child: a fault of a kernel is asked again",
        "Child._death",
        "if code < 0 and -code not in FAULTS",
        "if code < 0 and -code != signal.SIGSEGV",
        "No row would say that the config ends its worker.",
        (CHILD + "::test_death_is_a_row_and_the_next_config_gets_a_new_worker",),
    ),
    Mutant(
        "child: a worker that was killed is not replaced",
        "Child._asked_again",
        "for _ in range(ATTEMPTS - 1):",
        "for _ in range(ATTEMPTS - ATTEMPTS):",
        "The config has no time in this run, and its layer no ratio.",
        (CHILD,),
    ),
    Mutant(
        "tune: a killed worker leaves a row",
        "Run._without_verdict",
        "return self.rows[candidate.config]",
        "return self._store(self.rows[candidate.config])",
        "The next run takes it for a verdict.",
        (CHILD + "::test_a_config_whose_worker_was_killed_is_tried_again_by_the_next_run",),
    ),
    Mutant(
        "tune: a killed compiler leaves a row",
        "Run.search",
        "isinstance(refused, CompilerKilled):",
        "refused is None:",
        "The next run takes it for a verdict.",
        (CHILD + "::test_a_config_whose_compiler_was_killed_is_tried_again_by_the_next_run",),
    ),
    Mutant(
        "program: only the driver of clang can be killed",
        "program",
        '", "unable to execute command: Killed")',
        '", )',
        "The kernel ends the program that takes the memory, which is its child.",
        ("test_cpu_runtime.py",),
    ),
    Mutant(
        "tune: one row of a config is known, of whatever source",
        "Run.recall",
        "known.setdefault(row.config, {})[row.digest] = row",
        "known[row.config] = {row.digest: row}",
        "Where two versions share a database, one of them measures everything again and again.",
        ("test_evaluate.py::test_rows_of_other_versions_of_the_package_hide_none_of_this_one",),
    ),
    Mutant(
        "tune: the first part of a chain has all the time",
        "_share",
        "return now + max(0.0, until - now) / problems",
        "return until",
        "The chain itself is what was asked for.",
        ("test_evaluate.py::test_a_chain_and_its_parts_have_equal_shares_of_the_time",),
    ),
    Mutant(
        "schedule: nothing is left to what comes behind the parts",
        "_Run._visits",
        "share = seconds([*left, *behind], at)",
        "share = seconds(left, at)",
        "Chains get no time but for their first trials.",
        (SCHEDULE + "::test_a_chain_has_its_share_of_the_time",),
    ),
    Mutant(
        "result: all rows are today's where the best one is",
        "holding",
        "if is_todays(oldest):",
        "if is_todays(best):",
        "An interrupted tuning counts the trials from before an update, and does not go on.",
        (SCHEDULE + "::test_rows_of_older_templates_count_for_nothing_beside_those_of_today",),
    ),
    Mutant(
        "result: a config may have two rows that count",
        "holding",
        "if best is not None and len(configs) == len(rows) and is_todays(best):",
        "if best is not None and is_todays(best):",
        "Of the default, the older row is shown, which was in no race.",
        (SCHEDULE + "::test_rows_of_two_versions_do_not_add_up",),
    ),
    Mutant(
        "listing: the mark of a spreadsheet is a part of the first name",
        "_text",
        'encoding="utf-8-sig"',
        'encoding="utf-8"',
        "Layers lose their names.",
        ("test_listing.py::test_what_a_spreadsheet_writes_before_the_first_name_is_none_of_it",),
    ),
)
