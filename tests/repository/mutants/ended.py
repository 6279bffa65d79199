"""Mutants of what ends with a process: its compilers, its worker, its temporary folders; and of how it is ended."""

from mutants.mutant import Mutant

PROGRAM, FOLDERS = "device/test_program.py", "test_folders.py"
INTERRUPTION = "test_interruption.py"

MUTANTS = (
    Mutant(
        "program: a compiler outlives its process",
        "_group_that_ends_with_us",
        "read -r _; kill -KILL 0",
        "read -r _",
        "A tuner that was killed leaves compilers that use the machine.",
        (f"{PROGRAM}::test_a_compiler_ends_with_the_process_that_started_it",),
    ),
    Mutant(
        "program: a compiler is not in the group that is watched",
        "run",
        "process_group=group",
        "process_group=0",
        "A compiler that is too late goes on, and so does one whose process was killed.",
        (f"{PROGRAM}::test_nothing_of_it_is_left_behind",),
    ),
    Mutant(
        "program: children of a compiler are left behind",
        "_group_that_ends_with_us",
        "os.killpg(watch.pid, signal.SIGKILL)",
        "watch.kill()",
        "A wrapper of a compiler leaves processes behind.",
        (f"{PROGRAM}::test_nothing_of_it_is_left_behind",),
    ),
    Mutant(
        "folders: what a killed process left stays",
        "building",
        "if now - _changed_at(left, now) > ABANDONED_S:",
        "if False:",
        "The cache grows with every tuner that is killed.",
        (FOLDERS,),
    ),
    Mutant(
        "folders: what is being built is removed",
        "building",
        "if now - _changed_at(left, now) > ABANDONED_S:",
        "if now - _changed_at(left, now) > ABANDONED_S / 4:",
        "A slow compiler finds its folder gone.",
        (FOLDERS,),
    ),
    Mutant(
        "interruption: Ctrl-C during the imports is a traceback",
        "main",
        "interruption.end_at_once()",
        "pass",
        "Within the first second, Ctrl-C prints forty lines.",
        (f"{INTERRUPTION}::test_ctrl_c_at_an_import_is_one_line[numpy]",),
    ),
    Mutant(
        "interruption: SIGTERM ends nothing but the command",
        "raised",
        "signal.signal(signal.SIGTERM, _terminate)",
        "pass",
        "Temporary folders stay, and the worker goes on.",
        (f"{INTERRUPTION}::test_sigterm_is_one_line",),
    ),
    Mutant(
        "interruption: the caller's handlers are lost",
        "raised",
        "signal.signal(number, handler)",
        "pass",
        "A program that calls the command ends by the next SIGTERM with our exception.",
        (f"{INTERRUPTION}::test_a_caller_keeps_its_handlers",),
    ),
    Mutant(
        "interruption: what is ignored is taken",
        "end_at_once",
        "if signal.getsignal(signal.SIGINT) is signal.default_int_handler:",
        "if True:",
        "A command in a script's background ends by the Ctrl-C that was meant for another.",
        (f"{INTERRUPTION}::test_what_is_ignored_stays_ignored",),
    ),
    Mutant(
        "ahead: an interruption waits for a compiler that hangs",
        "Ahead.__exit__",
        "self._waiting.clear()",
        "pass",
        "Ctrl-C takes a minute.",
        ("test_compile_ahead.py::test_an_interruption_does_not_wait_for_one_that_hangs",),
    ),
    Mutant(
        "worker: it outlives its tuner in the middle of a request",
        "_requests.read",
        "os._exit(1)",
        "return",
        "A kernel that hangs holds the device when its tuner is gone.",
        ("test_worker.py::test_a_worker_ends_with_its_tuner_in_the_middle_of_a_request",),
    ),
)
