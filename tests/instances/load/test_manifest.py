"""A manifest is read as a whole, and any change since it was written is refused by a sentence that names it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from qconv import Conv2d, generator
from qconv.device import open_device
from qconv.errors import CacheError
from qconv.instances.load.manifest import Chosen, Manifest, digest_of, files_in, read_manifest
from qconv.targets.target import target

CPU = open_device("cpu")
PROBLEM = Conv2d(1, 4, 4, 5, 6, 3, 3, pad=1)


@dataclass(frozen=True)
class OfATest(Manifest):
    SCHEMA: ClassVar[str] = "of-a-test-1"
    counts: tuple[int, ...]
    pairs: dict[str, tuple[int, str]]


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "built"
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "kernel.so").write_bytes(b"kernel")
    (folder / "kernels" / "manifest.json").write_text("not the folder's own")
    config = generator.default(PROBLEM, target("cpu")).config.as_dict()
    chosen = Chosen(problem=str(PROBLEM), config=config, digest="0" * 32, reason="nothing was tuned")
    OfATest("cpu", (chosen,), files_in(folder), (1, 2), {"one": (1, "first")}).write(folder)
    return folder


def change(folder: Path, alter: Callable[[dict[str, Any]], object], sealed: bool = True) -> None:
    """Change the manifest; by default with a valid digest, as by a program that knows it."""
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    alter(document)
    if sealed:
        del document["sha256"]
        document["sha256"] = digest_of(document)
    path.write_text(json.dumps(document))


def test_what_is_written_is_read(built: Path) -> None:
    manifest = read_manifest(built, OfATest, CPU)
    assert (manifest.counts, manifest.pairs) == ((1, 2), {"one": (1, "first")})
    assert (manifest.target, manifest.choices[0].problem) == ("cpu", str(PROBLEM))
    assert sorted(manifest.files) == ["kernels/kernel.so", "kernels/manifest.json"]
    assert (built / "manifest.json").stat().st_mode & 0o777 == 0o600
    change(built, lambda document: document.update(dict(reversed(document.items()))))
    assert read_manifest(built, OfATest, CPU) == manifest


def given(**values: object) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.update(values)


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a list for an object": (given(pairs=[1]), "(pairs=[1] must be an object)"),
    "an object for a list": (given(counts={"1": 2}), "(counts={'1': 2} must be a list)"),
    "null for a list": (given(counts=None), "(counts=None must be a list)"),
    "null for an object": (given(choices=[None]), "(choices[0]=None must be an object)"),
    "a number for a string": (given(target=7), "(target=7 must be a string)"),
    "a string for a number": (given(counts=[1, "2"]), "(counts[1]='2' must be an integer)"),
    "a fraction": (given(counts=[1.0]), "(counts[0]=1.0 must be an integer)"),
    "a truth": (given(counts=[True]), "(counts[0]=True must be an integer)"),
    "too long": (given(pairs={"one": [1, "first", 2]}), "(pairs['one']=[1, 'first', 2] must be a list of 2)"),
    "deep inside": (given(pairs={"one": [1, 2]}), "(pairs['one'][1]=2 must be a string)"),
    "a name that is missing": (lambda document: document.pop("pairs"), "(it has no pairs)"),
    "a name too many": (given(more=1), "(it has 'more', which nothing reads)"),
    "one that is missing inside": (
        lambda document: document["choices"][0].pop("reason"),
        "(choices[0] has no reason)",
    ),
    "a problem that is none": (
        lambda document: document["choices"][0].update(problem="conv2d:n=0"),
        "has no h; it needs n, h, w, c, k, r, s",
    ),
    "a config that is none": (
        lambda document: document["choices"][0].update(config={"family": "simt"}),
        "must have exactly the fields",
    ),
    "a target that is none": (given(target="sm_1"), "(target='sm_1' is none that this version knows)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_another_type_is_refused(name: str, built: Path) -> None:
    alter, says = WRONG[name]
    change(built, alter)
    with pytest.raises(ValueError, match=r"manifest\.json is damaged \(.*\): build it again") as refused:
        read_manifest(built, OfATest, CPU)
    assert says in str(refused.value)


def test_what_was_changed_since_is_refused(built: Path) -> None:
    """Every value still has its type."""
    change(built, given(counts=[1, 3]), sealed=False)
    with pytest.raises(ValueError, match=r"is damaged \(its sha256='.*' is not that of what it says\): build it again"):
        read_manifest(built, OfATest, CPU)
    change(built, lambda document: document.pop("sha256"), sealed=False)
    with pytest.raises(ValueError, match="sha256=None is not that of what it says"):
        read_manifest(built, OfATest, CPU)


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000, "\ud800"])
def test_what_is_no_json_is_refused(text: str, built: Path) -> None:
    (built / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"manifest\.json is damaged \(it is not JSON\): build it again"):
        read_manifest(built, OfATest, CPU)


def test_another_schema_is_refused(built: Path) -> None:
    for text in ("[]", "null", json.dumps({"schema": ["of-a-test-1"]}), json.dumps({"schema": "another"})):
        (built / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match="does not have the schema of-a-test-1: build it again"):
            read_manifest(built, OfATest, CPU)


def test_a_folder_without_a_manifest_is_none_of_ours(built: Path) -> None:
    (built / "manifest.json").unlink()
    built.chmod(0o777)  # others could write to the folder
    for place in ("nothing", "a folder", "a pipe"):
        if place == "a folder":
            (built / "manifest.json").mkdir()
        elif place == "a pipe":
            (built / "manifest.json").rmdir()
            os.mkfifo(built / "manifest.json")
        with pytest.raises(ValueError, match=r"has no manifest\.json: it was not written by qconv-tune build"):
            read_manifest(built, OfATest, CPU)


def flip_a_bit(folder: Path) -> None:
    (folder / "kernels/kernel.so").write_bytes(b"kernal")


def remove_a_file(folder: Path) -> None:
    (folder / "kernels/kernel.so").unlink()


def add_a_file(folder: Path) -> None:
    (folder / "kernels/other.so").write_bytes(b"kernel")


def forget_a_file(folder: Path) -> None:
    change(folder, lambda document: document["files"].pop("kernels/kernel.so"))


def replace_a_file(folder: Path) -> None:
    (folder / "kernels/kernel.so").unlink()
    (folder / "kernels/kernel.so").mkdir()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (flip_a_bit, r"the file 'kernels/kernel\.so' is not as it was built: build it again with qconv-tune build"),
        (remove_a_file, r"has no file 'kernels/kernel\.so', which was built: build it again"),
        (replace_a_file, r"has no file 'kernels/kernel\.so', which was built: build it again"),
        (add_a_file, r"has a file 'kernels/other\.so' that was not built: remove it, or build it again"),
        (forget_a_file, r"has a file 'kernels/kernel\.so' that was not built: remove it, or build it again"),
    ],
)
def test_files_that_are_not_as_they_were_built_are_refused(how: Callable[[Path], None], says: str, built: Path) -> None:
    how(built)
    with pytest.raises(CacheError, match=says):
        read_manifest(built, OfATest, CPU)


def test_another_target_is_refused(built: Path) -> None:
    with pytest.raises(ValueError, match=r"was built for cpu, and cpu.sm_80 is cpu.sm_80: build it with --target"):
        read_manifest(built, OfATest, open_device("cpu.sm_80"))


def test_others_cannot_have_written_it(built: Path) -> None:
    built.chmod(0o777)
    with pytest.raises(CacheError, match="others than its owner may write there"):
        read_manifest(built, OfATest, CPU)
