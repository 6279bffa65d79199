"""The commands export and build, as typed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qconv.cli import main

KEY = "conv2d:n=1:h=5:w=5:c=4:k=6:r=3:s=3:x_type=int8:w_type=int8:out_type=int8"
Answer = tuple[int, str, str]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Answer]:
    """Run a command in an empty folder, without a database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "none.sqlite"))

    def run(*arguments: str) -> Answer:
        code: Any = 0
        try:
            main(arguments)
        except SystemExit as done:
            code = done.code
        return int(code or 0), *capsys.readouterr()

    return run


def test_a_library_of_a_default_needs_no_database(command: Callable[..., Answer], tmp_path: Path) -> None:
    words = ("export", "--format", "library", "--target", "cpu", "--origin", "user,default", "--out", "kernels", KEY)
    code, out, err = command(*words)
    assert (code, err) == (0, "1 of 1 kernels compiled\n")
    assert f"{KEY}  the untuned default for cpu\n" in out
    assert "build it: cmake -S kernels -B kernels/build" in out
    code, out, _ = command(*words, "--json")
    assert code == 0
    assert {
        str(path.relative_to(tmp_path / "kernels")) for path in (tmp_path / "kernels").rglob("*") if path.is_file()
    } == set(json.loads(out)["files"])


def test_sources_of_a_default_say_so(command: Callable[..., Answer], tmp_path: Path) -> None:
    code, out, _ = command("export", "--target", "sm_80", "--origin", "default", "--out", "kernels", KEY)
    assert code == 0
    assert "the untuned default for sm_80" in out
    manifest = json.loads((tmp_path / "kernels/manifest.json").read_text())
    (kernel,) = manifest["kernels"]
    assert (kernel["origin"], kernel["time_us"], kernel["measured_on_this_source"]) == ("default", None, False)
    assert "// the untuned default for sm_80\n" in (tmp_path / "kernels/qconv_kernels.h").read_text()


@pytest.mark.parametrize(
    ("target", "form", "text"), [("cpu", "isa", "ret"), ("sm_80", "ptx", ".target sm_80"), ("sm_80", "sass", "EXIT")]
)
def test_machine_code_lies_beside_its_source(
    command: Callable[..., Answer], tmp_path: Path, target: str, form: str, text: str
) -> None:
    words = ("export", "--format", form, "--target", target, "--origin", "default", "--out", "kernels", KEY)
    code, out, err = command(*words)
    if code == 3:
        pytest.skip(err.splitlines()[0])
    assert (code, err) == (0, "1 of 1 kernels compiled\n")
    (kernel,) = json.loads((tmp_path / "kernels/manifest.json").read_text())["kernels"]
    assert kernel["code"].rpartition(".")[::2] == (kernel["file"].rpartition(".")[0], form)
    assert text in (tmp_path / "kernels" / kernel["code"]).read_text()
    assert f"kernels/{kernel['code']}\n" in out
    other, its = ("sm_80", "ptx, sass") if form == "isa" else ("cpu", "isa")
    code, _, err = command(*words[:4], other, *words[5:])
    assert (code, err) == (2, f"Error: {form} is not a form of kernels for {other}: give {its}, or source\n")
    code, _, _ = command("export", *words[3:])
    assert code == 0
    assert not (tmp_path / "kernels" / kernel["code"]).exists(), "nothing of an older export stays"


def test_a_gpu_names_the_target(command: Callable[..., Answer], tmp_path: Path) -> None:
    code, out, _ = command("export", "--target", "A100", "--origin", "default", "--out", "kernels", KEY)
    assert code == 0
    assert "the untuned default for sm_80" in out
    (kernel,) = json.loads((tmp_path / "kernels/manifest.json").read_text())["kernels"]
    assert kernel["target"] == "sm_80"


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_build_is_for_the_emulation_of_a_gpu(command: Callable[..., Answer]) -> None:
    code, out, err = command("build", "--target", "CPU.h100", "--out", "layer", "--json", KEY)
    assert (code, json.loads(out)["problems"]) == (0, 1), err


@pytest.mark.parametrize(
    ("name", "hint"),
    [("h10", "did you mean 'h100'?"), ("v100", "no kernel here is compiled for sm_70, which 'v100' is")],
)
def test_a_gpu_that_is_no_target_gets_a_hint(command: Callable[..., Answer], name: str, hint: str) -> None:
    for words in (("export", "--origin", "default", "--out", "kernels"), ("build",), ("source",)):
        code, out, err = command(words[0], *words[1:], "--target", name, KEY)
        assert (code, out) == (2, "")
        assert hint in err


def test_an_origin_that_is_none_is_refused(command: Callable[..., Answer]) -> None:
    code, out, err = command("export", "--origin", "mine", "--out", "kernels")
    assert (code, out) == (2, "")
    assert "origin='mine' is not one of user, shipped, default" in err


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_a_layer_is_built_and_counted(command: Callable[..., Answer], tmp_path: Path) -> None:
    code, out, err = command("build", "--target", "cpu", "--out", "layer", "--json", KEY)
    assert code == 0
    assert KEY in err
    document = json.loads(out)
    assert (document["problems"], document["kernels"], document["folder"]) == (1, 1, "layer")
    assert document["files"] == sum(path.is_file() for path in (tmp_path / "layer").rglob("*"))


def test_a_build_that_matches_nothing_is_refused(command: Callable[..., Answer]) -> None:
    code, out, err = command("build", "--target", "gfx90a", "k=77777")
    assert (code, out) == (2, "")
    assert "no tuned problem of gfx90a has 'k=77777' in its key: name a problem by its key or by its op" in err
    code, out, err = command("build", "--target", "cpu", "--device", "cpu of nobody", "--out", "layer")
    assert (code, out) == (2, "")
    assert "no tuned problem of cpu on 'cpu of nobody' is known" in err


def test_a_model_becomes_a_folder(command: Callable[..., Answer], tmp_path: Path) -> None:
    shipped = pytest.importorskip("shipped_networks", reason="onnx or onnxruntime is not installed")
    (tmp_path / "model.onnx").write_bytes(shipped.moving().SerializeToString())
    words = ("export", "model.onnx", "--format", "library", "--target", "cpu", "--no-vectors", "--out", "network")
    code, out, err = command(*words)
    assert code == 0, err
    assert "cpu: x 1x3x5x4, a 2x3, b 2x3: " in out
    assert "build it: cmake -S network -B network/build" in out
    assert "vectors" not in err
    code, out, _ = command(*words[:-1], "again", "--json")
    assert code == 0
    assert sorted(json.loads(out)["files"]) == sorted(
        str(path.relative_to("network")) for path in Path("network").rglob("*") if path.is_file()
    )


def test_what_is_refused_of_a_model(command: Callable[..., Answer], tmp_path: Path) -> None:
    shipped = pytest.importorskip("shipped_networks", reason="onnx or onnxruntime is not installed")
    (tmp_path / "model.onnx").write_bytes(shipped.fails().SerializeToString())
    model = ("export", "model.onnx", "--format", "library", "--out", "network")
    for words, says in (
        ((*model, "--target", "cpu"), "function of yours computes them:\n  LSTM (y): no kernel here computes LSTM"),
        (model, "a model is exported alone, with --format library, for at least one --target"),
        ((*model, "--target", "cpu", "other.onnx"), "a model is exported alone, with --format library, for at least"),
        (("export", "model.onnx", "--target", "cpu", "--out", "network"), "a model is exported alone, with --format"),
        ((*model, "--target", "cpu", "--batch", "0"), "--batch '0' must be numbers of at least 1"),
        ((*model, "--target", "cpu", "--extent", "h=3"), "the extent 'h' is none of the model's open ones behind"),
        (("export", "--batch", "2", "--out", "network"), "--batch, --extent, --inputs and --vectors belong to a MODEL"),
        (
            (*model, "--target", "cpu", "--inputs", "x=1,y"),
            "--inputs 'x=1,y' must be a name and extents for each input",
        ),
        ((*model, "--target", "cpu", "--inputs", "z=1"), "the input 'z' is not known"),
        (
            (*model, "--target", "cpu", "--inputs", "x=1", "--batch", "2"),
            "shapes say every extent of the inputs: leave",
        ),
    ):
        code, _, err = command(*words)
        assert code == 2, words
        assert says in err, words
        assert not Path("network").exists()
