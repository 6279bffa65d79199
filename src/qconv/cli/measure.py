"""The commands run and bench, which launch the kernel that lookup gives."""

from __future__ import annotations

import hashlib
import secrets
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from qconv.cli import interruption
from qconv.cli.options import ProblemCommand, database_option, device_option, json_option, print_json, problem_options
from qconv.errors import WrongOutput
from qconv.op import Problem, Sample

if TYPE_CHECKING:
    from qconv.instances.load.instance import Instance


def tops(problem: Problem, time_us: float) -> float:
    return problem.operations / time_us / 1e6


def _describe(instance: Instance) -> dict[str, Any]:
    return {
        "problem": str(instance.problem),
        "device": instance.device.name,
        "target": instance.plan.target.name,
        "origin": instance.origin,
        "reason": instance.reason,
        "config": instance.plan.config.as_dict(),
    }


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@database_option
@json_option
@click.option("--verify", is_flag=True, help="Compare with the oracle, bit for bit; exit code 1 where they differ.")
@click.option("--sanitize", type=click.Choice(["address", "thread"]), help="On the CPU device: run under a sanitizer.")
@click.option("--seed", type=click.IntRange(0), help="Of the random data. Default: fresh.")
def run(
    problem: Problem,
    fixed: dict[str, int],
    device: str | None,
    db: str | None,
    as_json: bool,
    verify: bool,
    sanitize: Literal["address", "thread"] | None,
    seed: int | None,
) -> None:
    """Run the instance that lookup would give, once, on random full-range data."""
    from qconv.instances.load.serving import lookup
    from qconv.ops import registry

    seed = secrets.randbits(32) if seed is None else seed
    with interruption.telling(lambda: f"it had no output yet: --seed {seed} draws the same data again"):
        instance = lookup(problem, device, db)
        document = _describe(instance) | {"seed": seed}
        document |= _ran(instance, registry.draw(problem, seed, fixed), verify, sanitize)
    _print(document, as_json)
    if "wrong" in document:
        sys.exit(1)


def _ran(
    instance: Instance, drawn: Sample, verify: bool, sanitize: Literal["address", "thread"] | None
) -> dict[str, Any]:
    """Return what a run has shown: a digest of its outputs, or whether they are right."""
    from qconv.tuner.measure.verification import mismatch

    found: dict[str, Any] = {}
    wrong = None
    if sanitize is not None:
        from qconv.tuner.measure import sanitized

        if instance.device.target.vendor != "cpu":
            raise click.UsageError(
                f"--sanitize runs on the CPU device, not on {instance.device.spec}: add --device cpu"
            )
        wrong = sanitized.mismatch(instance.plan, drawn, sanitize)
        found |= {"sanitizer": sanitize, "clean": wrong is None}
    if verify:
        wrong = wrong or mismatch(instance.executable, drawn)
        found |= {"verified": wrong is None}
    if not verify and sanitize is None:
        made = instance(*(instance.device.upload(array) for array in drawn.arrays), **drawn.parameters)
        outputs = made if isinstance(made, tuple) else (made,)
        digest = hashlib.sha256(b"".join(instance.device.download(output).tobytes() for output in outputs))
        found |= {"output_sha256": digest.hexdigest()}
    return found if wrong is None else found | {"wrong": wrong}


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@database_option
@json_option
def bench(problem: Problem, fixed: dict[str, int], device: str | None, db: str | None, as_json: bool) -> None:
    """Verify and time the instance that lookup would give, by the tuner's protocol."""
    from qconv.benchmark import bench as measure
    from qconv.instances.load.serving import lookup

    document = _describe(lookup(problem, device, db))
    try:
        found = measure(problem, device, db, zero_points=fixed)
    except WrongOutput as wrong:
        _print(document | {"verified": False, "wrong": str(wrong)}, as_json)
        sys.exit(1)
    document |= {
        "verified": True,
        "protocol": found.protocol.as_dict(),
        "time_us": found.time_us,
        "times_us": list(found.times_us),
        "tops": found.tops,
        "gb_per_s": found.gb_per_s,
        "facts": found.facts,
    }
    _print(document, as_json)


def _print(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    width = max(map(len, document))
    for name, value in document.items():
        text = f"{value:.3f}" if isinstance(value, float) else value
        if isinstance(value, dict):
            text = " ".join(f"{key}={item}" for key, item in value.items())
        elif isinstance(value, list):
            text = " ".join(f"{item:.2f}" for item in value)
        click.echo(f"{name:<{width}}  {text}")
