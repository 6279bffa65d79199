"""Help by topics: every op lists exactly its own options, and no line is wider than a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from qconv.cli import main
from qconv.cli.command_line import IN_SHORT, commands
from qconv.cli.topics import COMPLETION, GENERAL
from qconv.ops.registry import OPS


def said(*words: str, columns: int = 80) -> str:
    done = CliRunner().invoke(commands, words, terminal_width=columns, prog_name="qconv-tune")
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_lists_its_options_and_no_other(op: object) -> None:
    listed = set(re.findall(r"^(--[\w-]+)", said("help", op.name), re.MULTILINE))
    assert listed == {option.spelled for option in op.options}


@pytest.mark.parametrize("topic", ["", "ops", *GENERAL, *(op.name for op in OPS), "tune", "db", "lookup"])
def test_no_line_is_wider_than_the_terminal(topic: str) -> None:
    shown = said("help", *filter(None, [topic]))
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("command", ["tune", "lookup", "run", "bench", "space", "source"])
def test_a_command_names_what_most_need_and_where_the_rest_is(command: str) -> None:
    shown = said(command, "--help")
    assert "--residual-add" not in shown
    assert len(shown.splitlines()) < 75
    for part in ("--n INTEGER", "--pad", "--device", "qconv-tune help OP"):
        assert part in shown


def test_every_topic_is_listed() -> None:
    shown = said("help")
    assert all(topic in shown for topic in GENERAL)
    assert all(op.name in shown for op in OPS)
    assert said("help", "doctor") == said("doctor", "--help")


def test_every_op_has_a_line_that_says_what_it_computes() -> None:
    shown = " ".join(said("help", "ops").split())
    assert all(f"{op.name} {op.says}" in shown for op in OPS)


def test_the_list_of_commands_is_not_cut() -> None:
    assert set(IN_SHORT) == set(commands.commands)
    shown = said("--help")
    assert "..." not in shown.partition("Commands:")[2]
    assert all(says in shown for says in IN_SHORT.values())


def test_no_command_is_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main([])
    assert done.value.code in (0, 2), "2 from click 8.2 on"
    out, err = capsys.readouterr()
    assert (out + err).startswith("Usage: ")
    assert "Error" not in out + err


def test_what_is_no_topic() -> None:
    done = CliRunner().invoke(commands, ["help", "nothing"])
    assert done.exit_code == 2
    assert "'nothing' is no topic; there are environment, completion" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("shell", [shell for shell, _ in COMPLETION])
def test_a_shell_completes_commands(shell: str) -> None:
    """Uses the request of the script that the shell evaluates."""
    words = {"COMP_WORDS": "qconv-tune dev", "COMP_CWORD": "1" if shell != "fish" else "dev"}
    asked = {"_QCONV_TUNE_COMPLETE": f"{shell}_complete", **words}
    program = "import sys; from qconv.cli import main; sys.argv[0] = 'qconv-tune'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert "devices" in done.stdout, done.stderr
