"""A PostgreSQL server for the tests, in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ACCOUNT = "postgres"


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl: Debian does not put them on PATH, and has one folder per version."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    return folders[-1] if folders else None


def _as_account() -> list[str]:
    """Return a prefix for commands, because the server refuses to run as root."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(ACCOUNT)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


class Server(str):
    """The server's URL. `restart` stops it at once, as in a crash, and starts it again."""

    restart: Callable[[], None]


@contextmanager
def server() -> Iterator[Server]:
    """Start a server, or skip the test if there is none to start."""
    folder = programs()
    if folder is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'qconv-tune[fleet]'")
    home = Path(tempfile.mkdtemp(prefix="qconv-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(home, ACCOUNT, ACCOUNT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, prefix = home / "data", _as_account()

    def run(*command: object) -> None:
        subprocess.run([*prefix, *map(str, command)], check=True, cwd=home, capture_output=True, timeout=120)

    try:
        run(folder / "initdb", "-D", data, "-U", ACCOUNT, "-A", "trust", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {home} -c fsync=off"
        run(folder / "pg_ctl", "-D", data, "-l", home / "log", "-w", "-o", options, "start")
        url = Server(f"postgresql+psycopg://{ACCOUNT}@127.0.0.1:{port}/{ACCOUNT}")
        url.restart = lambda: run(
            folder / "pg_ctl", "-D", data, "-l", home / "log", "-w", "-m", "immediate", "-o", options, "restart"
        )
        try:
            yield url
        finally:
            run(folder / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)
