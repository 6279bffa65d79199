"""The command group cache: list, clear and verify what was compiled and remembered."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from qconv.cli import interruption
from qconv.cli.options import json_option, print_json
from qconv.cli.table import check_one_format, csv_option, of_terminal, printed_as_data, table

if TYPE_CHECKING:
    from qconv.instances.load.cache_entries import Entry

KINDS = ("kernel", "library", "choices")
NAMES = ("kind", "target", "entries", "size", "newest", "folder")
# The columns of csv.
ENTRY = ("kind", "target", "path", "bytes", "changed_at", "is_user")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

kind_option = click.option("--kind", type=click.Choice(KINDS), help="Only these. Default: all.")
target_option = click.option("--target", metavar="sm_90a|cpu|...", help="Only kernels of this target.")


@click.group()
def cache() -> None:
    """The cache: compiled kernels, the CPU device's libraries, remembered choices. It has all but the measurements."""


@cache.command("list")
@kind_option
@target_option
@json_option
@csv_option
def list_entries(kind: str | None, target: str | None, as_json: bool, as_csv: bool) -> None:
    """List the entries and bytes per target. The folders of QCONV_PATH are listed too. --json and --csv list every
    entry."""
    check_one_format(as_json, as_csv)
    found = _chosen(kind, target)
    documents = [entry.as_dict() for entry in found]
    if printed_as_data(documents, ENTRY, documents, as_json, as_csv):
        return
    groups: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
    for entry in found:
        groups[entry.kind, entry.target, str(entry.layer.root)].append(entry)
    rows = [_row(*group, entries) for group, entries in groups.items()]
    click.echo(table(NAMES, rows, of_terminal()))
    click.echo(f"{len(found)} entries, {size(sum(entry.bytes for entry in found))}")


@cache.command()
@kind_option
@target_option
@click.option("--older-than", "days", type=click.FloatRange(min=0), metavar="DAYS", help="Only what is older.")
@click.option("--dry-run", is_flag=True, help="Count, delete nothing.")
@json_option
def clear(kind: str | None, target: str | None, days: float | None, dry_run: bool, as_json: bool) -> None:
    """Delete what is in the user's cache. A lookup makes again what it needs. The database stays, and so do the folders
    of QCONV_PATH, which are only read."""
    found = [entry for entry in _chosen(kind, target) if entry.layer.is_user]
    if days is not None:
        now = datetime.now(UTC)
        found = [entry for entry in found if (now - entry.changed_at) / timedelta(days=1) > days]
    freed = sum(entry.bytes for entry in found)
    removed = 0
    with interruption.telling(lambda: f"{removed} of {len(found)} entries are deleted: the same command goes on"):
        for entry in found if not dry_run else ():
            entry.remove()
            removed += 1
    if as_json:
        print_json({"entries": len(found), "bytes": freed, "deleted": not dry_run})
        return
    click.echo(f"{len(found)} entries, {size(freed)} {'would be ' if dry_run else ''}deleted")


@cache.command()
@kind_option
@target_option
@json_option
@csv_option
def verify(kind: str | None, target: str | None, as_json: bool, as_csv: bool) -> None:
    """Compare the files with their digests. Check who may write them, too. Exit code 1: something is damaged."""
    check_one_format(as_json, as_csv)
    found = _chosen(kind, target)
    damaged: list[tuple[Entry, str]] = []
    verified = 0
    with interruption.telling(lambda: f"{verified} of {len(found)} entries are verified, {len(damaged)} are damaged"):
        for entry in found:
            if (why := entry.damage) is not None:
                damaged.append((entry, why))
            verified += 1
    documents = [entry.as_dict() | {"reason": why} for entry, why in damaged]
    answer = {"entries": len(found), "damaged": documents}
    if not printed_as_data(answer, (*ENTRY, "reason"), documents, as_json, as_csv):
        for entry, why in damaged:
            remedy = (
                "the next lookup makes it again" if entry.layer.is_user else "qconv-tune build --out makes it again"
            )
            click.echo(f"damaged  {entry.path}: {why}; {remedy}")
        click.echo(f"{len(found) - len(damaged)} of {len(found)} entries are whole")
    if damaged:
        sys.exit(1)


def _chosen(kind: str | None, target: str | None) -> list[Entry]:
    """Return the entries of all layers. Raise ValueError for a target that none has."""
    from qconv.device import folders
    from qconv.instances.load.cache_entries import entries
    from qconv.targets.target import canonical

    found = [entry for layer in folders.layers() for entry in entries(layer) if kind in (None, entry.kind)]
    if target is None:
        return found
    if kind not in (None, "kernel"):
        raise click.UsageError(f"--target {target} beside --kind {kind}: only kernels have a target, leave one out")
    kernels = [entry for entry in found if entry.kind == "kernel"]
    chosen = [entry for entry in kernels if _is_for(entry, canonical(target))]
    if kernels and not chosen:
        there = ", ".join(dict.fromkeys(entry.target for entry in kernels))
        raise ValueError(
            f"--target {target!r}: no kernel here is for it; there are some for {there}: give one of those"
        )
    return chosen


def _is_for(entry: Entry, target: str) -> bool:
    """True for the target, which for the CPU device may be given with or without its host."""
    return entry.target == target or (target.startswith("cpu") and entry.target.startswith(f"{target}-"))


def _row(kind: str, target: str, root: str, entries: Sequence[Entry]) -> list[str]:
    newest = max(entry.changed_at for entry in entries)
    total = size(sum(entry.bytes for entry in entries))
    return [kind, target, str(len(entries)), total, f"{newest:%Y-%m-%d}", root]


def size(count: int) -> str:
    """Return a number of bytes in the largest unit of which there is one, with three digits at most."""
    amount, unit = float(count), 0
    while amount >= 999.5 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {UNITS[unit]}" if unit == 0 or amount >= 99.95 else f"{amount:.3g} {UNITS[unit]}"
