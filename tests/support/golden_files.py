"""The folder tests/golden: a few sources whole, and of all others the paragraphs that no other file there has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from golden_paragraphs import (
    GAP,
    declarations_of,
    identity,
    lists_constants,
    restored,
    short_constants,
    short_variant,
)

FOLDER = Path(__file__).parents[1] / "golden"
# Sources to be read as examples, one of a kind: README.md there says of which.
WHOLE = (
    "simt-body-sm_90a.cu",
    "depthwise-rows-sm_90a.cu",
    "mma-body-sm_90a.cu",
    "mma-16x16x32-staged-gfx942.hip",
    "wgmma-body-sm_90a.cu",
    "halo-body-sm_90a.cu",
    "fused-small-image-sm_90a.cu",
    "elementwise-quantize-tensor-sm_90a.cu",
)
CONSTANTS = "constants.txt"
ORDER = "order.txt"


def paragraphs_of(source: str) -> list[str]:
    """Split at blank lines and, in the header, before a bare `//`."""
    return source.removesuffix("\n").replace("\n//\n", f"{GAP}//\n").split(GAP)


def joined(paragraphs: Iterable[str]) -> str:
    return GAP.join(paragraphs).replace(f"{GAP}//\n", "\n//\n") + "\n"


def is_own(paragraph: str) -> bool:
    """Tell whether it names the case's target, config and launches: a page begins with these, whoever else has them."""
    return paragraph.startswith("//\n// target")


def shared_paragraphs(sources: Mapping[str, str]) -> set[str]:
    """Return what kernels of several kinds have: the prelude, the epilogue, the roles."""
    kinds = defaultdict(set)
    for name, text in sources.items():
        for paragraph in paragraphs_of(text):
            kinds[paragraph].add(name.partition("-")[0])
    return {paragraph for paragraph, of in kinds.items() if len(of) > 1}


def files_of(sources: Mapping[str, str]) -> dict[str, str]:
    """Map each file below tests/golden to its text."""
    shared = shared_paragraphs(sources)
    declarations = declarations_of(paragraph for text in sources.values() for paragraph in paragraphs_of(text))
    files: defaultdict[str, list[str]] = defaultdict(list)
    files[CONSTANTS] = ["\n".join(sorted(declarations.values()))]
    written: dict[str, str] = {}  # those that are kept as they are -> the file
    found: set[str] = set()
    for name in sorted(sources, key=lambda name: name not in WHOLE):
        header, *paragraphs = paragraphs_of(sources[name])
        if name in WHOLE:
            whole = f"whole/{name}"
            files[whole] = [header, *paragraphs]
            written |= {paragraph: written.get(paragraph, whole) for paragraph in files[whole]}
            found.update(files[whole])
            continue
        files[f"pages/{name}"].append(header)
        found.add(header)
        for paragraph in dict.fromkeys(paragraphs):
            if paragraph in found and not is_own(paragraph):
                continue
            found.add(paragraph)
            file = f"shared{Path(name).suffix}" if paragraph in shared and not is_own(paragraph) else f"pages/{name}"
            if lists_constants(paragraph):
                files[file].append(short_constants(paragraph, declarations))
            elif variant := short_variant(paragraph, written):
                files[file].append(variant)
            else:
                files[file].append(paragraph)
                written[paragraph] = file
    identities = {identity(paragraph) for paragraph in found}
    assert len(identities) == len(found), "two paragraphs have one identity: lengthen it"
    orders = [f"{name}: {' '.join(map(identity, paragraphs_of(text)))}\n" for name, text in sources.items()]
    return {**{file: joined(paragraphs) for file, paragraphs in files.items()}, ORDER: "".join(orders)}


def read(folder: Path = FOLDER) -> dict[str, str]:
    """Map each case to the whole source that was reviewed."""
    lines = (folder / CONSTANTS).read_text().splitlines()
    declarations = {line.partition(" = ")[0].rpartition(" ")[2]: line for line in lines}
    kept = [
        paragraph
        for file in (*folder.glob("whole/*"), *folder.glob("shared.*"), *folder.glob("pages/*"))
        for paragraph in paragraphs_of(file.read_bytes().decode())
    ]
    written = {identity(paragraph): paragraph for paragraph in kept}
    paragraphs = {identity(text): text for text in (restored(each, declarations, written) for each in kept)}
    sources = {}
    for line in (folder / ORDER).read_text().splitlines():
        name, _, identities = line.partition(": ")
        sources[name] = joined(paragraphs[each] for each in identities.split(" "))
    return sources


def write(sources: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Write all files of the folder but its README, and remove those that are no longer among them."""
    files = {folder / file: text for file, text in files_of(sources).items()}
    for stale in written_files(folder) - set(files):
        stale.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")


def written_files(folder: Path = FOLDER) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"}
