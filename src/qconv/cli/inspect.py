"""The commands that only look: lookup, space, source, devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from qconv.cli.options import ProblemCommand, database_option, device_option, json_option, print_json, problem_options
from qconv.cli.table import check_one_format, csv_option, print_csv
from qconv.op import Problem

if TYPE_CHECKING:
    from qconv.device.disassembly import Form
    from qconv.generator import Plan
    from qconv.targets.target import Target

# The columns of csv.
SPACE = ("state", "config", "launch", "reason")
DEVICES = ("kind", "name", "target", "facts")


target_option = click.option(
    "--target", "target_name", metavar="sm_80|h100|gfx90a|cpu|...", help="Needs no such device."
)


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@target_option
@database_option
@json_option
def lookup(
    problem: Problem,
    fixed: dict[str, int],
    device: str | None,
    target_name: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show the instance that the library would use, and why. Its binary is in the cache afterwards. With --target,
    nothing is compiled: show what would be used there, and its time, measured or expected."""
    if target_name is not None:
        _print_forecast(problem, _target(target_name, device), db, as_json)
        return
    from qconv.instances.load.serving import lookup as find

    instance = find(problem, device, db)
    needs = instance.binary.resources.get(instance.plan.main.kernel)
    document: dict[str, Any] = {
        "problem": str(problem),
        "device": instance.device.name,
        "target": instance.plan.target.name,
        "origin": instance.origin,
        "reason": instance.reason,
        "config": instance.plan.config.as_dict(),
        "toolchain": instance.binary.toolchain,
        "registers": needs.registers if needs else None,
        "spill_bytes": needs.spill_bytes if needs else None,
        "smem_bytes": instance.plan.main.smem_bytes,
        "binary": str(instance.binary.path),
    }
    if as_json:
        print_json(document)
        return
    click.echo(
        f"{problem}\n  on {instance.device.name}: {instance.reason}\n  {instance.plan.config}\n  {instance.plan.main}"
    )
    click.echo(f"  {instance.binary.path}")


def _print_forecast(problem: Problem, where: Target, db: str | None, as_json: bool) -> None:
    from qconv.instances.load.forecast import forecast
    from qconv.tuner.report.roofline import floor_us

    found = forecast(problem, where, db)
    floor = floor_us(problem, found.device)
    if as_json:
        print_json(found.as_dict() | {"floor_us": floor})
        return
    plan = found.choice.plan
    click.echo(f"{problem}\n  on {found.device or where.name} ({where.name}): {found.choice.reason}")
    click.echo("\n".join(f"  {kernel.config}\n  {kernel.main}" for kernel in plan.kernels))
    click.echo(f"  {found.time}")
    if floor is not None:
        click.echo(f"  no kernel is faster than {floor:.2f} us, by the products and bytes of the problem")


def _target(name: str | None, device: str | None) -> Any:
    from qconv.device import open_device
    from qconv.targets.target import target

    if name is not None and device is not None:
        raise click.UsageError("--target and --device both name an architecture: give one")
    return target(name) if name is not None else open_device(device).target


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@target_option
@json_option
@csv_option
def space(
    problem: Problem,
    fixed: dict[str, int],
    device: str | None,
    target_name: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """List every config of the search space: feasible ones by estimated cost, and why each other one is not."""
    from qconv.generator import default
    from qconv.generator import space as enumerate_space

    check_one_format(as_json, as_csv)
    target = _target(target_name, device)
    feasible, rejected = enumerate_space(problem, target)
    if as_json:
        print_json(
            {
                "problem": str(problem),
                "target": target.name,
                "feasible": [plan.config.as_dict() for plan in feasible],
                "rejected": [{"config": r.config.as_dict(), "reason": r.reason} for r in rejected],
            }
        )
        return
    if as_csv:
        rows = [("feasible", plan.config.as_json(), plan.main, None) for plan in feasible]
        print_csv(SPACE, [*rows, *(("rejected", r.config.as_json(), None, r.reason) for r in rejected)])
        return
    for plan in feasible:
        click.echo(f"feasible  {plan.config}  {plan.main}")
    for r in rejected:
        click.echo(f"rejected  {r.config}  {r.reason}")
    click.echo(f"{len(feasible)} feasible, {len(rejected)} rejected on {target.name}")
    if not feasible and not rejected:
        instead = default(problem, target)
        click.echo(
            f"no family has one kernel for it there; lookup gives {len(instead.kernels)} kernels: {instead.config}"
        )


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@target_option
@click.option(
    "--config", "config_json", help="A config as JSON, as space --json prints it. Default: the untuned default."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["source", "ptx", "sass", "isa"]),
    default="source",
    show_default=True,
    help="The source; compiled, PTX or SASS for NVIDIA, isa for AMD and the CPU.",
)
def source(
    problem: Problem,
    fixed: dict[str, int],
    device: str | None,
    target_name: str | None,
    config_json: str | None,
    form: Form | Literal["source"],
) -> None:
    """Print the generated kernel, or all kernels of a problem that needs several: the source, or its machine code."""
    from qconv import generator

    target = _target(target_name, device)
    if config_json is None:
        plan = generator.default(problem, target)
    else:
        plan = generator.plan(problem, generator.config_from_json(config_json), target)
    if len(plan.kernels) == 1:
        click.echo(_text_of(plan, form), nl=False)
        return
    for number, kernel in enumerate(plan.kernels, 1):
        click.echo(f"// Kernel {number} of {len(plan.kernels)}, which is a file of its own: {kernel.problem}")
        click.echo(_text_of(kernel, form))
    click.echo(
        f"these are {len(plan.kernels)} kernels, launched in turn, and do not compile as one file: qconv-tune export "
        "writes each to its own",
        err=True,
    )


def _text_of(plan: Plan, form: Form | Literal["source"]) -> str:
    from qconv import generator
    from qconv.device import disassembly

    made = generator.render(plan)
    return made.text if form == "source" else disassembly.text_of(made, plan, form)


@click.command()
@json_option
@csv_option
def devices(as_json: bool, as_csv: bool) -> None:
    """List the devices of this machine, and the targets that can be compiled for without one."""
    from qconv.device import gpu_specs, open_device, why_unused
    from qconv.device.compile import compiler_ahead
    from qconv.errors import CompileError
    from qconv.targets.target import TARGETS

    check_one_format(as_json, as_csv)
    gpus = gpu_specs()
    if not gpus and (why := why_unused()) is not None:
        click.echo(why, err=True)
    found = [{"device": spec} | open_device(spec).facts() for spec in [*gpus, "cpu"]]
    targets: dict[str, str] = {}
    for name, target in TARGETS.items():
        try:
            targets[name] = compiler_ahead(target).toolchain
        except CompileError as error:
            targets[name] = f"no: {error}"
    if as_json:
        print_json({"devices": found, "targets": targets})
    elif as_csv:
        here = [("device", facts["device"], facts["target"], _facts_of(facts)) for facts in found]
        print_csv(DEVICES, [*here, *(("target", name, name, answer) for name, answer in targets.items())])
    else:
        for facts in found:
            click.echo(f"{facts['device']:<8}  {_facts_of(facts)}")
        for answer, names in _alike(targets).items():
            click.echo(f"targets {', '.join(names)}: {answer}")


def _facts_of(facts: dict[str, Any]) -> str:
    return "  ".join(f"{name}={value}" for name, value in facts.items() if name != "device")


def _alike(targets: dict[str, str]) -> dict[str, list[str]]:
    """Group targets with the same compiler, or without one for the same reason."""
    found: dict[str, list[str]] = {}
    for name, answer in targets.items():
        found.setdefault(answer.replace(f" {name} ", " them "), []).append(name)
    return found
