"""Mutants of a fleet's listeners: who may use them, and what they show."""

from mutants.mutant import Mutant

LOCAL = "test_fleet_local.py"

MUTANTS = (
    Mutant(
        "fleet: whoever reaches a listener runs code",
        "_local",
        '{"host": HERE, "protocol": "tls://", "security": security}',
        '{"host": HERE, "protocol": "tcp://"}',
        "Another user of the machine would run code as this one.",
        (LOCAL + "::test_no_other_user_of_the_machine_runs_code_through_a_local_cluster",),
        slow=True,
    ),
    Mutant(
        "fleet: Dask's pages are for everyone",
        "_local",
        '[] for who in ("scheduler", "worker")}',
        '[] for who in ("scheduler",)}',
        "They name what is tuned, and ask for no certificate.",
        (LOCAL + "::test_no_other_user_of_the_machine_runs_code_through_a_local_cluster",),
        slow=True,
    ),
    Mutant(
        "fleet: a client of TLS without certificates",
        "_credentials",
        'if address.startswith("tls://") and context is None:',
        'if address.startswith("tls:///") and context is None:',
        "It would end with a traceback, after it has closed itself for seconds.",
        (LOCAL + "::test_a_scheduler_with_tls_needs_certificates_of_dasks_configuration",),
    ),
    Mutant(
        "fleet: every worker takes an interrupt for its own",
        "_interrupts_blocked",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})",
        "signal.pthread_sigmask(signal.SIG_BLOCK, set())",
        "Ctrl-C shows two tracebacks a worker around the table of what was found.",
        (LOCAL + "::test_no_other_user_of_the_machine_runs_code_through_a_local_cluster",),
        slow=True,
    ),
    Mutant(
        "fleet: interrupts stay blocked",
        "_interrupts_blocked",
        "signal.pthread_sigmask(signal.SIG_SETMASK, before)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, before)",
        "Ctrl-C does nothing at all.",
        (LOCAL + "::test_no_other_user_of_the_machine_runs_code_through_a_local_cluster",),
        slow=True,
    ),
)
