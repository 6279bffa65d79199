"""The local Dask cluster of a fleet, and a user's own with TLS: who can use them, and how they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from document_blocks import blocks_of

from qconv.errors import DeviceError
from qconv.tune_db.database import Database
from qconv.tuner.search.tune import Search
from qconv.tuner.workloads import fleet
from qconv.tuner.workloads.fleet import Crew, Fleet
from tests.tuner.workloads.test_schedule import FAST

pytestmark = pytest.mark.thirds

INTRUDER = Path(__file__).parents[2] / "support" / "intruder.py"


def _signals_blocked() -> int:
    """Return the signal mask of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("SigBlk")).split()[1], 16)


@pytest.mark.slow
def test_no_other_user_of_the_machine_runs_code_through_a_local_cluster() -> None:
    """Each listener refuses clients without a certificate of this run; Dask's web pages are disabled."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    with ExitStack() as opened, fleet._connect(Crew(workers=1), "cpu", opened) as client:
        said = client.scheduler_info(n_workers=-1)
        ((address, worker),) = said["workers"].items()
        assert client.run(os.getuid) == {address: os.getuid()}
        # Ctrl-C is for the tuner, which ends its workers: each would print its own traceback.
        (blocked,) = client.run(_signals_blocked).values()
        assert blocked >> (signal.SIGINT - 1) & 1
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        listeners = [one.partition("://")[2] for one in (client.scheduler.address, address, worker["nanny"])]
        attack = subprocess.run([sys.executable, INTRUDER, *listeners], capture_output=True, text=True, check=True)
        assert json.loads(attack.stdout) == dict.fromkeys(listeners)
        for port in (said["services"]["dashboard"], worker["services"]["dashboard"]):
            for page in ("health", "metrics", "info/main/workers.html", "json/identity.json"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}")


def test_a_cluster_without_certificates_runs_code_for_anyone() -> None:
    """This shows that the test above is a real attack."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    scheduler = {"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}}
    with distributed.SpecCluster(workers={}, scheduler=scheduler) as cluster:
        place = cluster.scheduler_address.partition("://")[2]
        attack = subprocess.run([sys.executable, INTRUDER, place], capture_output=True, text=True, check=True)
    assert json.loads(attack.stdout) == {place: os.getuid()}


def test_a_scheduler_with_tls_needs_certificates_of_dasks_configuration(tmp_path: Path) -> None:
    """They are checked at once: a client without them takes seconds to close, and prints a traceback."""
    config = pytest.importorskip("dask.config", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    missing = tmp_path / "fleet.pem"
    for given, says in (
        ({}, "the scheduler tls://host:8786 asks for a certificate, and none is configured: docs/tasks/tune.md says"),
        ({"ca-file": missing, "client.cert": missing}, "the certificates of Dask's configuration cannot be read: .*"),
    ):
        named = {f"distributed.comm.tls.{name}": str(value) for name, value in given.items()}
        with config.set(named), pytest.raises(DeviceError, match=says):
            Fleet(Crew(scheduler="tls://host:8786"), None, "t.sqlite", Search(0)).__enter__()


@pytest.mark.slow
def test_the_documents_recipe_for_tls_refuses_who_has_no_certificate(tmp_path: Path) -> None:
    """Uses the recipe's lines unchanged, on this host alone."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    certificate, configuration, commands = [one.code for one in blocks_of("docs/tasks/tune.md", "sh", "hosts")][-3:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = f"127.0.0.1:{port}"
    scheduler, worker, _ = commands.replace("--port 8786", f"--port {port}").replace("HOST:8786", place).splitlines()
    tune = f"-m qconv tune --workload layers.txt --device cpu --trials 3 --scheduler tls://{place} --db t.sqlite"
    (tmp_path / "layers.txt").write_text(f"{FAST}\n")
    script = f"""trap 'kill 0' EXIT
{certificate}{configuration}
{scheduler} --host 127.0.0.1 &
{worker} &
for attempt in $(seq 60); do {sys.executable} {tune} >&2 && break; sleep 1; done  # until the worker is there
env -i {sys.executable} {INTRUDER} {place}
"""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, start_new_session=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {place: None}, done.stderr
    with Database.open(tmp_path / "t.sqlite", create=False) as rows:
        assert len(rows.measurements(problem=FAST)) == 3


@pytest.mark.slow
def test_an_interrupt_ends_the_workers_without_a_traceback(tmp_path: Path) -> None:
    """As sent by a terminal: to the tuner and to every process of its group."""
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'qconv-tune[fleet]'")
    where = tmp_path / "t.sqlite"
    (tmp_path / "layers.txt").write_text(f"{FAST}\n")
    command = [sys.executable, "-m", "qconv", "tune", "--workload", "layers.txt", "--device", "cpu", "--workers", "2"]
    tuner = subprocess.Popen(
        [*command, "--trials", "500", "--db", str(where)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with Database.open(where) as rows:
            while not rows.measurements() and tuner.poll() is None:
                time.sleep(0.1)
        os.killpg(tuner.pid, signal.SIGINT)
        _, said = tuner.communicate(timeout=120)
    finally:
        tuner.kill()
    assert tuner.returncode == 130, said
    assert said.endswith("\n\ninterrupted: every finished trial is in the database: the same command goes on\n"), said
    assert "Traceback" not in said
