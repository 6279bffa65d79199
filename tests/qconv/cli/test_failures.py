"""Anything that a machine lacks is reported by one sentence with a remedy and an exit code; with --json also as a
document."""

from __future__ import annotations

import errno
import json
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import click
import pytest

from qconv import device
from qconv.cli import main
from qconv.cli.command_line import commands
from qconv.cli.failures import failure_of
from qconv.cli.incomplete import SCHEMA, core_packages
from qconv.errors import CacheError, DatabaseError, KernelMissing
from qconv.instances.load import serving

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


class Gpu(RuntimeError):
    """An error with CuPy's name."""


Gpu.__module__ = "cupy_backends.cuda.api.runtime"

FAILURES: dict[str, tuple[Exception, int, str]] = {
    "a package": (ModuleNotFoundError("No module named 'onnx'", name="onnx"), 3, "pip install 'qconv-tune[onnx]'"),
    "another package": (
        ModuleNotFoundError("No module named 'x.y'", name="x.y"),
        3,
        "this command needs: pip install x",
    ),
    "a package of ours": (
        ModuleNotFoundError("No module named 'optuna.trial'", name="optuna.trial"),
        3,
        f"depends on: its installation is incomplete, run {sys.executable} -m pip install qconv-tune again",
    ),
    "permission": (PermissionError(errno.EACCES, "Permission denied", "/o"), 3, "'/o': give a place that you may use"),
    "read-only": (OSError(errno.EROFS, "Read-only file system", "/o"), 3, "QCONV_CACHE moves the cache"),
    "full": (OSError(errno.ENOSPC, "No space left"), 3, "make room on the disk"),
    "a folder": (
        IsADirectoryError(errno.EISDIR, "Is a directory", "/o"),
        3,
        "'/o': this is a folder: give the name of",
    ),
    "a file": (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/o/p"), 3, "a part of this path is a file"),
    "any other of the system": (OSError(errno.EIO, "Input/output error"), 3, "qconv-tune doctor"),
    "the GPU": (Gpu("cudaErrorNoDevice: no CUDA-capable device"), 3, "the GPU failed: cudaErrorNoDevice"),
    "memory": (MemoryError("8 GiB"), 3, "make n smaller"),
    "the cache": (CacheError("no home: set QCONV_CACHE"), 3, "no home: set QCONV_CACHE"),
    "a kernel": (KernelMissing("not there: build it"), 3, "build it"),
    "the database": (DatabaseError("damaged: tune again"), 4, "tune again"),
    "the request": (ValueError("n=0 must be at least 1"), 2, "n=0"),
    "usage": (click.UsageError("give one"), 2, "give one"),
}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a tree that is run from its sources: no metadata lists the dependencies of qconv-tune, but
    pyproject.toml does."""
    try:
        metadata.requires("qconv-tune")
    except metadata.PackageNotFoundError:
        monkeypatch.setattr(metadata, "requires", lambda _: PROJECT["dependencies"])


@pytest.mark.parametrize("name", FAILURES)
def test_it_is_a_sentence_with_an_exit_code(name: str) -> None:
    error, code, said = FAILURES[name]
    failure = failure_of(error)
    assert failure is not None
    assert (failure.exit_code, failure.kind) == (code, type(error).__name__)
    assert said in failure.message
    assert "\n" not in failure.message


def test_what_is_installed_with_qconv_is_read_from_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(core_packages()) == len(PROJECT["dependencies"])
    required = ["ml-dtypes>=0.5", "SQLAlchemy (>=2.0)", 'cupy-cuda13x>=14; extra == "cuda"']
    monkeypatch.setattr(metadata, "requires", lambda _: required)
    assert core_packages() == {"ml_dtypes", "sqlalchemy"}


def test_a_package_of_ours_that_is_not_there_is_told_by_every_command_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")

    monkeypatch.setattr(serving, "lookup", fail)
    key = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3"
    for words in (["doctor", "--device", "cpu"], ["lookup", key], ["run", key], ["bench", key]):
        with pytest.raises(SystemExit) as done:
            main(words)
        assert done.value.code == 3
        said = "".join(capsys.readouterr())
        assert "No module named 'sqlalchemy', which qconv-tune itself depends on" in said, words
        assert f"run {sys.executable} -m pip install qconv-tune again" in said


def test_a_bug_is_none() -> None:
    assert failure_of(RuntimeError("ours")) is None
    assert failure_of(KeyError("ours")) is None


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    def run(error: Exception, *arguments: str) -> tuple[int, str, str]:
        def fail() -> None:
            raise error

        monkeypatch.setitem(commands.commands, "fails", click.Command("fails", callback=lambda as_json: fail(), params=[
            click.Option(["--json", "as_json"], is_flag=True)
        ]))  # fmt: skip
        with pytest.raises(SystemExit) as done:
            main(["fails", *arguments])
        assert isinstance(done.value.code, int)
        return done.value.code, *capsys.readouterr()

    return run


def test_json_is_one_document_beside_the_sentence(run: Callable[..., tuple[int, str, str]]) -> None:
    error = CacheError("no home: set QCONV_CACHE")
    assert run(error) == (3, "", "Error: no home: set QCONV_CACHE\n")
    code, out, err = run(error, "--json")
    assert (code, err) == (3, "Error: no home: set QCONV_CACHE\n")
    assert json.loads(out) == {
        "schema": SCHEMA,
        "error": {"kind": "CacheError", "message": "no home: set QCONV_CACHE", "exit_code": 3},
    }


def test_a_bug_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("ours")

    monkeypatch.setitem(commands.commands, "fails", click.Command("fails", callback=fail))
    with pytest.raises(KeyError):
        main(["fails"])


def test_devices_tells_of_a_gpu_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device, "gpu_specs", list)
    monkeypatch.setattr(device, "why_unused", lambda: "an NVIDIA GPU is here, but no driver: install it")
    main(["devices", "--json"])
    out, err = capsys.readouterr()
    assert err == "an NVIDIA GPU is here, but no driver: install it\n"
    assert [one["device"] for one in json.loads(out)["devices"]] == ["cpu"]
