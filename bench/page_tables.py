"""The tables of README, docs/index.md, performance.md, networks.md and tasks/devices.md, from rows of today's kernels.

    python bench/page_tables.py    # writes them between the marks of the pages

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. A row of which a kernel has changed since it was
measured is not quoted, and the table says how many such rows its JSON has.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import suite
from agreement_table import agreement
from current import is_current
from speedups import COMPARISONS, RESULTS, ROOT, Comparison, Row, current_rows, document
from targets_table import devices, what_runs_where

DOCUMENTS = ("index", "performance", "networks", "tasks/devices")
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in DOCUMENTS))
MARKED = re.compile(r"(?<=<!-- table: )([\w ]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
NOTHING = "-"


def filled(page: Path) -> str:
    """The page with its tables made anew."""
    folder = "../" * len(page.relative_to(ROOT).parent.parts)
    return MARKED.sub(lambda mark: f"{mark[1]}{mark[2]}{TABLES[mark[1]]().replace(LINKS, folder)}\n", page.read_text())


# Stands for the way from a page to the root.
LINKS = "ROOT/"


def link(name: str, card: str = RESULTS.name) -> str:
    return f"[{name}]({LINKS}bench/results/{card}/{name}.json)"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (head, ["---"] * len(head), *rows))


def compared(fused: bool) -> str:
    head = ("what", "compared with", "JSON", "rows", "left out", "cuDNN's search cut short", "geometric mean", "least")
    chosen = [each for each in COMPARISONS if each.fused == fused]
    gone = {name: len(document(name)["rows"]) for each in chosen if not each.is_known for name in each.suites}
    return table(head, [compared_row(each) for each in chosen if each.is_known]) + said_left_out(gone)


def compared_row(each: Comparison) -> tuple[object, ...]:
    links = ", ".join(map(link, each.suites))
    cut = sum(map(is_cut_short, each.rows)) if "cuDNN 9.19's int8" in each.peer else NOTHING
    return (
        each.what,
        each.peer,
        links,
        len(each.rows),
        each.left_out,
        cut,
        f"{each.mean:.2f}",
        f"{min(each.ratios):.2f}",
    )


def is_cut_short(row: Row) -> bool:
    """Tell whether cuDNN's int8 plans were not all tried within the time that the suite gave them."""
    plans = row["peer_facts"].get("cudnn_int8", {}).get("plans")
    return plans is not None and plans["tried"] < plans["offered"]


# Kernels, the comparison's suite and peer, whether the least ratio is shown, command.
FRONT = (
    ("dense layers", "dense", "CUTLASS", True, "`bench/layers.py --suite dense`"),
    ("dense layers", "dense", "cuDNN", True, "the same"),
    ("dense and 1x1 layers of 16 networks, 24 trials", "untuned", "cuDNN", True, "`bench/untuned.py`"),
    ("depthwise, grouped and first layers", "special_untuned", "cuDNN", False, "`bench/layers.py --no-tune`"),
    ("depthwise and 1x1 in one kernel", "pairs_dw_pw_n32", "cuDNN", False, "`bench/pairs.py`"),
    ("depthwise and 1x1 in one kernel", "pairs_dw_pw_n32", "this project", False, "the same"),
)


def front() -> str:
    """The front pages show ten numbers at most."""
    rows = []
    for kernels, name, peer, with_least, command in FRONT:
        each = next(one for one in COMPARISONS if name in one.suites and peer in one.peer)
        if each.is_known:
            least = f", at worst {min(each.ratios):.2f}x" if with_least else ""
            rows.append((kernels, each.peer, f"{each.mean:.2f}x{least}", len(each.rows), command))
    if ratios := [row["over_inductor_fp16"] for row in network_rows() if row["batch"] == 128]:
        mean = f"{statistics.geometric_mean(ratios):.2f}x"
        rows.append(
            ("ONNX networks in a session, N=128", "PyTorch Inductor, fp16", mean, len(ratios), "`bench/networks.py`")
        )
    return table(("kernels", "compared with", "geometric mean", "rows", "command"), rows)


ONNX = ("networks", "networks_n1", "networks_n32", "networks_n128", "networks_resnext", "networks_integers")
LOWERED = ("lowered", "lowered_integers")


def network_rows() -> list[Row]:
    return [row for name in ONNX[:-1] for row in current_rows(name) if "over_inductor_fp16" in row]


def with_left_out(head: Sequence[str], cells: Callable[[Row], Sequence[object]], names: Iterable[str]) -> str:
    """One line for each row of today's kernels, and a sentence for the others."""
    rows, gone = [], {}
    for name in names:
        current = current_rows(name)
        rows += [(*cells(row), link(name)) for row in current]
        if left_out := len(document(name)["rows"]) - len(current):
            gone[name] = left_out
    return (table((*head, "JSON"), rows) if rows else "No row is of today's kernels.") + said_left_out(gone)


def said_left_out(gone: dict[str, int]) -> str:
    rows = ", ".join(f"{count} of {link(name)}" for name, count in gone.items())
    return f"\n\nLeft out, since a kernel has changed or the row does not name it: {rows}." if rows else ""


def networks() -> str:
    head = ("network", "from", "N", "inputs", "ms", "images/s", "Inductor fp16's time over ours")

    def cells(row: Row) -> tuple[object, ...]:
        over = f"{row['over_inductor_fp16']:.2f}" if "over_inductor_fp16" in row else NOTHING
        source = "PyTorch" if "nodes" in row else "ONNX"
        inputs = row.get("inputs", "float32")
        return (row["name"], source, row["batch"], inputs, f"{row['ms']:.3f}", f"{row['images_per_s']:,.0f}", over)

    return with_left_out(head, cells, (*ONNX, *LOWERED))


def zoo() -> str:
    """Return the table of the networks as users bring them, of every card that they were measured on."""
    paths = sorted(RESULTS.parent.glob("*/zoo.json"))
    return "\n\n".join(map(zoo_of, paths)) or "Not measured yet."


def brought() -> str:
    """Return the table of networks that the zoo does not have."""
    return zoo_of(RESULTS / "brought.json")


def zoo_of(path: Path) -> str:
    document = json.loads(path.read_text())
    timed = [row for row in document["rows"] if "ms" in row]
    rows = [row for row in timed if is_current(row, document["device"]["target"])]
    head = ("network", "kind", "N", "ms", "eager fp16", "Inductor fp16", "faster peer's time over ours")
    driver = ("layers elsewhere", "copies in, out and waits within a run")
    shown = f"On {document['device']['name']} ({link(path.stem, path.parent.name)}):\n\n"
    means = "".join(f"\n\n{said}" for said in zoo_means(rows))
    left_out = len(timed) - len(rows)
    gone = f"\n\nLeft out, since a kernel has changed: {left_out}." if left_out else ""
    return shown + table((*head, *driver), map(zoo_cells, rows)) + means + gone


def zoo_cells(row: Row) -> tuple[object, ...]:
    def number(name: str, digits: int) -> str:
        return f"{row[name]:.{digits}f}" if name in row else NOTHING

    trace = row.get("trace")
    driver = NOTHING
    if isinstance(trace, dict):
        driver = f"{trace['copies_to_device']}, {trace['copies_to_host']}, {trace['synchronizations']}"
    times = [number(name, 3) for name in ("ms", "eager_fp16_ms", "inductor_fp16_ms")]
    elsewhere = sum(row["elsewhere"].values())
    return (row["name"], row["kind"], row["batch"], *times, number("over_faster_peer", 2), elsewhere, driver)


def zoo_means(rows: list[Row]) -> list[str]:
    """Return a sentence for each batch: the geometric means over the peers, and the network that gains least."""
    said = []
    for batch in sorted({row["batch"] for row in rows}):
        known = [row for row in rows if row["batch"] == batch and "over_inductor_fp16" in row]
        if known:
            inductor, faster = (
                statistics.geometric_mean(row[f"over_{peer}"] for row in known)
                for peer in ("inductor_fp16", "faster_peer")
            )
            least = min(known, key=lambda row: float(row["over_faster_peer"]))
            said.append(
                f"N={batch}, {len(known)} networks, geometric mean: {inductor:.2f} over Inductor, {faster:.2f} over "
                f"the faster peer; least: {least['name']}, {least['over_faster_peer']:.2f}."
            )
    return said


def sessions() -> str:
    head = ("network", "N", "before tuning, ms", "after, ms")
    return with_left_out(
        head,
        lambda row: (row["name"], row["batch"], f"{row['before_ms']:.3f}", f"{row['after_ms']:.3f}"),
        ("tuned_sessions",),
    )


def sequences() -> str:
    head = ("network", "N", "convolutions", "launches", "us", "images/s", "one after the other, us")

    def cells(row: Row) -> tuple[object, ...]:
        in_turn_us = row["times_us"]["one after the other"]
        counts = (row["name"], row["batch"], row["convolutions"], row["launches"])
        return (*counts, f"{row['time_us']:,.0f}", f"{row['images_per_s']:,.0f}", f"{in_turn_us:,.0f}")

    return with_left_out(head, cells, ("sequence_resnet50", "sequence_mobilenet_v2"))


def residuals() -> str:
    head = ("layer", "one kernel, us", "convolution, us", "sum, us")
    return with_left_out(
        head,
        lambda row: (row["name"], *(f"{row[f'{what}_us']:.1f}" for what in ("together", "convolution", "add"))),
        ("residual",),
    )


def quantizations() -> str:
    """Return the table of the cost of zero points and scales per channel, layer by layer."""
    return with_left_out(
        ("layer", "us", "time over the simpler layer's"),
        lambda row: (row["name"], f"{row['time_us']:.1f}", f"{row['ratio']:.3f}"),
        ("zero_points", "per_channel"),
    )


def conversions() -> str:
    def cells(row: Row) -> tuple[object, ...]:
        torch = f"{row['best_peer_us']:.0f}" if row["best_peer_us"] else NOTHING
        return (row["name"], f"{row['time_us']:.0f}", f"{row['of_copy']:.2f}", torch)

    return with_left_out(("conversion", "us", "rate over a copy's", "PyTorch, us"), cells, ("quantize",))


def host() -> str:
    said = json.loads((RESULTS / "host_cost.json").read_text())
    rows = [
        ("lookup of a problem that was looked up before", f"{said['warm_lookup_ns'] / 1e3:.2f} us"),
        ("a bound call", f"{said['bound_ns'] / 1e3:.2f} us"),
        ("the bare driver call", f"{said['bare_driver_ns'] / 1e3:.2f} us"),
        ("CuPy's RawKernel", f"{said['cupy_rawkernel_ns'] / 1e3:.2f} us"),
        ("first lookup of a process", f"{said['cold_lookup_ms']:.0f} ms"),
        ("opening the database", f"{said['open_ms']:.1f} ms"),
    ]
    return table(("what", "host time"), rows) + f"\n\nCommit: {said.get('commit') or 'not recorded'}."


def verified() -> str:
    """How many rows of the verifying suites are of today's kernels."""
    rows = []
    for what, name in (
        ("layers of 16 networks at N=1, as deployed, against an independent PyTorch reference", "models"),
        ("pairs of convolutions at N=1, against the oracle", "pairs_n1"),
        ("pairs of convolutions at N=8, against the oracle", "pairs_n8"),
    ):
        current = len(current_rows(name))
        rows.append((what, link(name), current, len(document(name)["rows"]) - current))
    return table(("what", "JSON", "problems", "left out"), rows)


def exactness() -> str:
    records = sorted(RESULTS.parent.glob(f"*/{suite.NAME}"))
    return "\n\n".join(suite.sentence(json.loads(path.read_text())) for path in records)


def expressions() -> str:
    def cells(row: Row) -> tuple[object, ...]:
        torch = f"{row['peers']['torch']:.1f}" if "torch" in row["peers"] else NOTHING
        return (row["name"], f"{row['time_us']:.1f}", f"{row['copy_us']:.1f}", f"{row['of_copy']:.2f}", torch)

    head = ("expression", "us", "a copy of as many bytes", "share of its speed", "PyTorch")
    return with_left_out(head, cells, ("expressions",))


TABLES: dict[str, Callable[[], str]] = {
    "front": front,
    "single": lambda: compared(False),
    "fused": lambda: compared(True),
    "networks": networks,
    "zoo": zoo,
    "brought": brought,
    "expressions": expressions,
    "sessions": sessions,
    "sequences": sequences,
    "residuals": residuals,
    "quantizations": quantizations,
    "conversions": conversions,
    "host": host,
    "verified": verified,
    "exactness": exactness,
    "what runs where": lambda: what_runs_where(RESULTS.parent),
    "devices": lambda: devices(RESULTS.parent),
    "agreement": lambda: agreement(RESULTS.parent / "cpu" / "zoo_agreement.json"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for page in PAGES:
        page.write_text(filled(page))
        print(page)


if __name__ == "__main__":
    main()
