"""Mutants of what judges the tests: the planter of mutants, and the ledger of what ran."""

from mutants.mutant import Mutant

OF_MUTATE, OF_LEDGER = "test_mutate.py", "test_ledger.py"

MUTANTS = (
    Mutant(
        "mutate: a process that was killed has caught it",
        "judge",
        "invalid |= crashed and not mutant.crashes",
        "invalid |= crashed and mutant.crashes",
        "Where memory runs out, every mutant would be caught.",
        (OF_MUTATE + "::test_a_death_by_a_signal_says_nothing_unless_it_is_expected",),
    ),
    Mutant(
        "mutate: the error of a fixture is not run again",
        "Verdict.failed",
        'if word in ("FAILED", "ERROR"):\n            return (rest.partition(" - ")[0],)\n'
        "        return node_ids(self.mutant.tests) if self.caught_by else ()",
        'return (rest.partition(" - ")[0],) if word == "FAILED" else ()',
        "A full disk would catch every mutant.",
        (OF_MUTATE + "::test_what_caught_one_is_run_again_without_it",),
    ),
    Mutant(
        "ledger: what was skipped ran",
        "missing",
        "if outcome == RAN:",
        "if outcome:",
        "What every run skips would be tested nowhere, and nobody would know.",
        (OF_LEDGER,),
    ),
    Mutant(
        "ledger: tests that need a GPU are missed",
        "missing",
        "if is_expected and test not in ran]",
        "if test not in ran]",
        "No run here could pass.",
        (OF_LEDGER + "::test_a_test_of_a_file_that_was_skipped_has_its_reason",),
    ),
    Mutant(
        "ledger: files without tests are not looked for",
        "missing",
        "if file not in found.files | named)",
        "if file in named)",
        "A file whose tests lost their names runs nowhere.",
        (OF_LEDGER + "::test_what_hid_itself_is_told_with_its_reason",),
    ),
)
