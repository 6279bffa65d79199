"""Mutants of the commands: what they count and print, and the code they end with."""

from mutants.mutant import Mutant

EXPORT, WORKLOADS, REFUSALS, PROGRESS = (
    f"cli/test_{name}.py" for name in ("export", "workloads", "refusals", "progress")
)
MEASURE = "test_measure.py"

MUTANTS = (
    Mutant(
        "build: a device that nobody tuned for builds nothing, and says so to nobody",
        "_build_problems",
        "if missed or not (done or (runtimes and asked.device is None)):",
        "if missed:",
        "A misspelled device would be found out where the kernels are missing.",
        (EXPORT + "::test_a_build_that_matches_nothing_is_refused",),
    ),
    Mutant(
        "build: the folder's files are not counted",
        "_build_problems",
        '"files": files,',
        '"files": len(binaries),',
        "The runtime and the kernels of arrays are files as well.",
        (EXPORT + "::test_a_layer_is_built_and_counted",),
    ),
    Mutant(
        "command line: an interruption is an error",
        "run",
        "if is_terminated else interruption.INTERRUPTED)",
        "if is_terminated else 1)",
        "A script tells Ctrl-C from a failure by the code.",
        (WORKLOADS + "::test_an_interruption_says_what_was_found_and_how_to_go_on",),
    ),
    Mutant(
        "export: a library is sources",
        "cli/export",
        'if form == "library":',
        'if form == "libraries":',
        "Without a launcher, nothing can be linked.",
        (EXPORT + "::test_a_library_of_a_default_needs_no_database",),
    ),
    Mutant(
        "run: a wrong kernel ends well",
        "run",
        ", as_json)\n    if wrong is not None:\n        sys.exit(1)",
        ", as_json)",
        "A script that verifies reads the exit code.",
        (MEASURE,),
    ),
    Mutant(
        "bench: a wrong kernel ends well",
        "bench",
        "sys.exit(1)",
        "return",
        "A script that verifies reads the exit code.",
        (MEASURE,),
    ),
    Mutant(
        "progress: trials that were known before count as made",
        "OfOne.__call__",
        "self._first = progress.done - 1 if self._first is None else self._first",
        "self._first = 0",
        "A run that goes on would promise to end in seconds.",
        (PROGRESS + "::test_one_problem_is_timed_from_its_first_trial",),
    ),
    Mutant(
        "progress: minutes of an hour are not filled up",
        "left",
        'f"{hours}h{minutes:02} left"',
        'f"{hours}h{minutes} left"',
        "1h5 is read as 1h50.",
        (PROGRESS,),
    ),
    Mutant(
        "report: folders are made as deep as it takes",
        "_make",
        "folders.make_last(folder)",
        "folder.mkdir(parents=True, exist_ok=True)",
        "A misspelled path is a report that nobody finds.",
        ("report/test_report.py::test_one_folder_is_made_and_no_misspelled_ones",),
    ),
    Mutant(
        "tune: a timeout longer than a day",
        "Asked.__post_init__",
        "if not 0 < self.timeout <= DAY_S:",
        "if not 0 < self.timeout:",
        "Infinity and 10^30 are no times that a system call takes.",
        (REFUSALS,),
    ),
    Mutant(
        "workload: a problem without a winner ends well",
        "tune_all",
        "return not failed",
        "return True",
        "A script would ship the default, and nobody would know.",
        (WORKLOADS + "::test_a_problem_of_which_no_config_worked_is_named",),
    ),
    Mutant(
        "workload: chains in several kernels stand among those in one",
        "table",
        'fused = [one for one in fusions if not str(one.config).startswith("unfused")]',
        "fused = fusions",
        "A chain that is faster unfused replaces no layers.",
        (WORKLOADS + "::test_what_replaces_layers_stands_below_their_sum",),
    ),
    Mutant(
        "prune: what ties with the best is deleted",
        "slower_than",
        "return M.median_us > max(factor, 1 + NOISE) * first",
        "return M.median_us > factor * first",
        "The winner of a tie is the simplest, which need not be the fastest.",
        ("test_cli.py::test_db_list_merge_export_prune",),
    ),
)
