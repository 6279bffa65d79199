"""The command doctor: what is installed, what works, and how to get what is missing."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import click

from qconv.cli.failures import failure_of
from qconv.cli.incomplete import MACHINE
from qconv.cli.options import device_option, json_option
from qconv.cli.table import check_one_format, csv_option, printed_as_data
from qconv.version import __version__

SCHEMA = "qconv-doctor-1"
NAMES = ("what", "state", "says", "remedy")
KEY = "conv2d:n=1:h=7:w=7:c=16:k=16:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:x_zero_point:bias=int32"
State = Literal["ok", "missing", "wrong"]


@dataclass(frozen=True)
class Finding:
    """A row of the answer. `missing` marks something useful but optional, `wrong` something that should work but does
    not."""

    what: str
    state: State
    says: str
    remedy: str | None = None


@click.command()
@device_option
@json_option
@csv_option
def doctor(device: str | None, as_json: bool, as_csv: bool) -> None:
    """Show what is installed, what works and how to get what is missing; and whether a kernel runs."""
    check_one_format(as_json, as_csv)
    findings = [*_here(), *_compilers(), *_gpus(), *_places(), _kernel(device)]
    rows = [asdict(finding) for finding in findings]
    if not printed_as_data({"schema": SCHEMA, "findings": rows}, NAMES, rows, as_json, as_csv):
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            click.echo(f"{finding.state:<8} {finding.what:<{width}}  {finding.says}")
            if finding.remedy is not None:
                click.echo(f"{'':<8} {'':<{width}}  -> {finding.remedy}")
    if any(finding.state == "wrong" for finding in findings):
        sys.exit(MACHINE)


def _here() -> Iterator[Finding]:
    yield Finding("qconv-tune", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")


def _compilers() -> Iterator[Finding]:
    """Yield a finding per vendor, for one of its targets."""
    from qconv.device.compile import compiler_ahead, compiler_for
    from qconv.errors import CompileError
    from qconv.targets.target import target

    for what, name in (("CPU kernels", "cpu"), ("NVIDIA kernels", "sm_80"), ("AMD kernels", "gfx90a")):
        try:
            yield Finding(what, "ok", f"compiled by {compiler_for(target(name)).toolchain}")
        except CompileError as error:
            says, _, remedy = str(error).partition("; ")
            with contextlib.suppress(CompileError):
                says = f"{says}; {compiler_ahead(target(name)).toolchain} compiles them for other machines"
            yield Finding(what, "missing", _one_line(says), _one_line(remedy) or None)


def _gpus() -> Iterator[Finding]:
    from qconv.device import gpu_specs, open_device, why_unused
    from qconv.device.presence import seen_gpus

    found = gpu_specs()
    for spec in found:
        try:
            device = open_device(spec)
            yield Finding(spec, "ok", f"{device.name} ({device.target.name})")
        except Exception as error:
            yield _failed(spec, error)
    if found:
        return
    if (why := why_unused()) is not None:
        says, _, remedy = why.rpartition(": ")
        yield Finding("GPU", "wrong", says, remedy)
    elif seen_gpus():
        yield Finding("GPU", "wrong", "it is seen, and gives no device", "check its driver")
    else:
        yield Finding(
            "GPU", "missing", "none is seen", "the CPU device serves, slowly: it shows what a GPU would compute"
        )


def _places() -> Iterator[Finding]:
    from qconv.device import folders
    from qconv.errors import CacheError

    for layer in folders.layers():
        name = "cache" if layer.is_user else "layer"
        if not layer.root.exists():
            state: State = "ok" if layer.is_user else "wrong"
            says = f"{layer.root}, which is made when it is needed" if layer.is_user else f"{layer.root} is not there"
            yield Finding(name, state, says, None if layer.is_user else "correct QCONV_PATH")
            continue
        try:
            layer.check_all(layer.root)
        except CacheError as refused:
            says, _, remedy = str(refused).rpartition("; ")
            yield Finding(name, "wrong", says, remedy)
            continue
        written = "can be written" if os.access(layer.root, os.W_OK) else "is only read"
        yield Finding(name, "ok", f"{layer.root}, {written}")
    if not any(layer.is_user for layer in folders.layers()):
        yield Finding("cache", "missing", "there is no home folder for one", "set QCONV_CACHE to a folder of your own")
    if os.environ.get("QCONV_NO_COMPILE") and shutil.which("g++"):
        yield Finding("QCONV_NO_COMPILE", "ok", "it is set: nothing is compiled, though there is a compiler")


def _kernel(spec: str | None) -> Finding:
    from qconv.instances.load.serving import lookup
    from qconv.ops import registry
    from qconv.ops.registry import parse
    from qconv.tuner.measure.verification import mismatch

    try:
        instance = lookup(parse(KEY), spec)
        wrong = mismatch(instance.executable, registry.draw(instance.problem, 0))
    except Exception as error:
        return _failed("a kernel", error)
    if wrong is not None:
        return Finding("a kernel", "wrong", f"on {instance.device.name}: {wrong}", "report it, with what stands above")
    return Finding("a kernel", "ok", f"ran on {instance.device.name}, and every output is right")


def _failed(what: str, error: Exception) -> Finding:
    failure = failure_of(error)
    if failure is None:
        raise error
    return Finding(what, "wrong", _one_line(failure.message))


def _one_line(text: str) -> str:
    return " ".join(text.split())
