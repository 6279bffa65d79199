"""The refusals of the command line: one message with the value, the rule and the remedy, an exit code, and no side
effects.

They run in this process, a hundred times faster than in a new one: `test_cli.py` has the cases that need one.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qconv import generator
from qconv.cli import main
from qconv.device import open_device
from qconv.instances.load import building
from qconv.ops import registry
from qconv.ops.registry import parse
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement

SHAPE = ["--n", "1", "--h", "6", "--w", "6", "--c", "8", "--k", "8", "--r", "3", "--s", "3"]
CONV = ["conv2d", *SHAPE, "--pad", "1"]
KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8"
TYPES = "x_type=int8:w_type=int8:out_type=int8"

# The exit code, stdout, and stderr as one line.
Answer = tuple[int, str, str]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Answer]:
    """Run a command in an empty folder. Unexpected errors are raised here."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Answer:
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 0
        captured = capsys.readouterr()
        return code, captured.out, " ".join(captured.err.split())

    return run


BAD: dict[str, tuple[list[str], int, str]] = {
    # name: (arguments, exit code, what the message must say)
    "no size": (["lookup", "conv2d", "--n", "1"], 2, "--h"),
    "zero channels": (["lookup", "conv2d", "--c", "0", *SHAPE[:6], *SHAPE[8:]], 2, "c=0 must be between 1"),
    "negative pad": (["lookup", *CONV[:-1], "-1"], 2, "pad=-1 must be between 0"),
    "three pads": (["lookup", *CONV[:-1], "1,2,3"], 2, "one integer or 4"),
    "pad in words": (["lookup", *CONV[:-1], "same"], 2, "'same' is not an integer"),
    "size in words": (["lookup", "conv2d", "--n", "one"], 2, "--n 'one' is not an integer: give one, as in --n 1"),
    "zero stride": (["lookup", *CONV, "--stride", "0"], 2, "stride=0 must be between 1"),
    "zero dilation": (["lookup", *CONV, "--dilation", "0"], 2, "dilation=0"),
    "groups do not divide": (["lookup", *CONV, "--groups", "3"], 2, "c=8 is not a multiple of groups=3"),
    "filter too large": (["lookup", *CONV[:-1], "0", "--dilation", "9"], 2, "pad more or use a smaller r"),
    "unknown x type": (["lookup", *CONV, "--x-type", "int4"], 2, "'int4' is not one of"),
    "a type of conversions": (["tune", *CONV, "--x-type", "int16"], 2, "x_type='int16' is not one of int8, uint8"),
    "unknown output": (["lookup", *CONV, "--out-type", "bfloat8"], 2, "'bfloat8' is not one of"),
    "unknown activation": (["lookup", *CONV, "--activation", "gelu6"], 2, "gelu6"),
    "zero point of a float": (
        ["lookup", *CONV, "--out-type", "float32", "--y-zero-point", "1"],
        2,
        "only int8 and uint8 outputs have a zero point",
    ),
    "zero point in words": (["lookup", *CONV, "--x-zero-point", "mid"], 2, "'mid' is not an integer"),
    "float bias on int32": (["lookup", *CONV, "--out-type", "int32", "--bias", "float32"], 2, "use bias none or int32"),
    "accumulator overflow": (
        ["lookup", "conv2d:n=1:h=1:w=1:c=200000:k=1:r=1:s=1:x_type=int8:w_type=int8:out_type=int8"],
        2,
        "more than an int32 accumulator",
    ),
    "too many elements": (
        ["lookup", "conv2d:n=60000:h=200:w=200:c=8:k=1:r=1:s=1:x_type=int8:w_type=int8:out_type=int8"],
        2,
        "at most",
    ),
    "a stride beyond all": (["lookup", KEY + ":stride=1073741824"], 2, "give 8, the padded extent"),
    "padding without end": (
        ["run", f"conv2d:n=1:h=1:w=1:c=96:k=96:r=1:s=1:groups=96:pad=1073741824,0,0,0:{TYPES}"],
        2,
        "use smaller pads",
    ),
    "unknown op": (["lookup", "conv3d:n=1"], 2, "known: conv2d"),
    "key and flags": (["lookup", KEY, "--n", "2"], 2, "a key says everything"),
    "unknown field": (["lookup", KEY + ":speed=9"], 2, "unknown field 'speed' in the key"),
    "field twice": (["lookup", KEY + ":n=1"], 2, "'n' stands twice"),
    "flag with a value": (["lookup", KEY + ":per_channel=1"], 2, "takes no value"),
    "no value": (["lookup", KEY + ":activation"], 2, "needs a value"),
    "unknown flag value": (["lookup", KEY + ":rounding=up"], 2, "rne, half_away, rtz"),
    "unknown mode": (["lookup", *CONV, "--mode", "tensorrt"], 2, "'tensorrt' is not one of"),
    "mode without zero points": (
        ["lookup", *CONV, "--mode", "torch-cudnn", "--x-zero-point"],
        2,
        "that system has none",
    ),
    "code in a key": (["lookup", KEY + ":pad=__import__('os')"], 2, "twice"),
    "a GPU that is not here": (["lookup", *CONV, "--device", "cuda:7"], 3, "cuda:7"),
    "unknown device": (["lookup", *CONV, "--device", "tpu"], 3, "'tpu' is not known"),
    "unknown target": (["source", *CONV, "--target", "sm_81"], 2, "sm_80"),
    "target and device": (["space", *CONV, "--target", "sm_80", "--device", "cpu"], 2, "give one"),
    "config is not JSON": (["source", *CONV, "--target", "sm_80", "--config", "{"], 2, "is not JSON"),
    "config of no family": (["source", *CONV, "--target", "sm_80", "--config", '{"family":"warp"}'], 2, "simt"),
    "config with a missing field": (
        ["source", *CONV, "--target", "sm_80", "--config", '{"family":"simt"}'],
        2,
        "tile_m",
    ),
    "infeasible config": (
        [
            *("source", *CONV, "--target", "sm_80", "--config"),
            '{"family":"simt","tile_m":128,"tile_n":4,"tile_k":16,"thread_m":8,"thread_n":4,"pipeline_stages":1}',
        ],
        2,
        "tile_m",
    ),
    "trials in words": (
        ["tune", *CONV, "--trials", "many"],
        2,
        "--trials 'many' is not an integer of at least 1: give",
    ),
    "seconds in words": (["tune", *CONV, "--seconds", "x"], 2, "--seconds 'x' is not a number: give one, as in"),
    "no such command": (["tun"], 2, "'tun' is no command of"),
    "no such command of a group": (["db", "lst"], 2, "(did you mean list?): give one of"),
    "a file in place of a problem": (["lookup", "layers.csv"], 2, "is no op, and no key of a problem: give one of"),
    "a choice, almost": (["export", "--format", "libary"], 2, "(did you mean library?): give one of them"),
    "no trials": (
        ["tune", *CONV, "--trials", "0"],
        2,
        "--trials 0 is not an integer of at least 1: give one",
    ),
    **{
        f"a timeout of {text}": (["tune", *CONV, "--timeout", text], 2, "must be seconds above 0, at most 86400")
        for text in ("0", "-1", "nan", "inf", "1e300")
    },
    "no seed": (["tune", *CONV, "--seed", "-1"], 2, "--seed -1 is not an integer of at least 0: give one"),
    "a database in folders that are misspelled": (
        ["tune", *CONV, "--device", "cpu", "--db", "no/such/tune.sqlite"],
        4,
        "no/such/tune.sqlite: there is no folder no, and only such in it would be made: make no",
    ),
    "prune what": (["db", "prune"], 2, "say what to delete"),
    "an empty database": (["tune", KEY, "--device", "cpu", "--db", ""], 2, "--db '' names no database: give a path"),
    "no such database": (["db", "list", "--db", "no/such/file.sqlite"], 4, "no/such/file.sqlite"),
    "lookup in no database": (["lookup", *CONV, "--device", "cpu", "--db", "nowhere.sqlite"], 4, "nowhere.sqlite"),
    "database URL of no dialect": (["db", "list", "--db", "oracle9://x"], 4, "oracle9"),
    **{
        f"build, {name}": (["build", *given.split(), "--target", "cpu"], 2, says)
        for name, given, says in (
            ("a missing flag", "conv2d --n 1 --h 8", "conv2d needs --w, --c, --k, --r, --s (or one canonical key"),
            ("a wrong value", "conv2d --n one", "--n 'one' is not an integer: give one, as in --n 1"),
            ("a value out of range", " ".join(CONV).replace("--n 1", "--n 0"), "n=0 must be between 1"),
            ("two ops", "conv2d add --n 1", "--n was given beside 2 words: give one op alone"),
            ("no op", "--n 1", "--n was given without an op"),
            ("no such op", "gemm --n 1", "--n was given beside 'gemm', which is no op: give one of conv2d,"),
            ("a key and a flag", f"{KEY} --n 1", "a key says everything"),
            ("the batch of a model", f"{KEY} --batch 2", "--batch 2 belongs to a MODEL.onnx"),
            ("a key and a part that none has", f"{KEY} k=77777", "no tuned problem of cpu has 'k=77777' in its key"),
            ("a part that no key has", "k=77777", "no tuned problem of cpu has 'k=77777' in its key: name a problem"),
        )
    },
    "nothing to export": (["export", "--db", "no.sqlite", "--out", "x"], 4, "no.sqlite"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_a_message_and_nothing_is_done(
    name: str, command: Callable[..., Answer], tmp_path: Path
) -> None:
    arguments, expected, says = BAD[name]
    code, out, err = command(*arguments)
    assert (code, out) == (expected, ""), err
    assert says in err
    assert list(tmp_path.iterdir()) == []


def test_kernels_in_turn_are_told_apart(command: Callable[..., Answer]) -> None:
    """Several kernels together are not one compilable file."""
    pointwise = "conv2d:n=1:h=8:w=8:c=8:k=8:r=1:s=1"
    code, text, told = command("source", f"{pointwise}+{pointwise}", "--target", "cpu")
    assert code == 0
    parts = re.split(r"^// Kernel \d of 2, which is a file of its own: (conv2d:.*)\n", text, flags=re.MULTILINE)
    assert [parts[0], *parts[1::2]] == ["", *[str(parse(pointwise))] * 2]
    plan = generator.default(parse(f"{pointwise}+{pointwise}"), target("cpu"))
    assert [part.rstrip() for part in parts[2::2]] == [generator.render(one).text.rstrip() for one in plan.kernels]
    assert "these are 2 kernels, launched in turn, and do not compile as one file: qconv-tune export writes" in told


@pytest.mark.parametrize("action", ["lookup", "tune", "run", "bench", "space", "source"])
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--x-zero-point 300", "x_zero_point=300 must be integers from -128 to 127 (int8)"),
        ("--x-type uint8 --x-zero-point -1", "x_zero_point=-1 must be integers from 0 to 255 (uint8)"),
        ("--w-zero-point 128", "w_zero_point=128 must be integers from -128 to 127 (int8)"),
        ("--y-zero-point=-129", "y_zero_point=-129 must be integers from -128 to 127 (int8)"),
        ("--residual uint8 --residual-zero-point 256", "residual_zero_point=256 must be integers from 0 to 255"),
        ("--residual int8 --residual-add requantized --inner-zero-point 128", "inner_zero_point=128 must be integers"),
    ],
)
def test_every_command_refuses_a_zero_point_that_its_type_cannot_hold(
    action: str, flags: str, says: str, command: Callable[..., Answer], tmp_path: Path
) -> None:
    code, out, err = command(action, *CONV, *flags.split(), "--device", "cpu")
    assert (code, out) == (2, "")
    assert says in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("action", ["lookup", "tune", "run", "bench", "space", "source", "export", "build"])
def test_every_command_refuses_an_option_that_the_op_does_not_have(action: str, command: Callable[..., Answer]) -> None:
    # The value is not an integer: the option is refused before it is read.
    code, out, err = command(action, "add", "--n", "x")
    assert (code, out) == (2, "")
    assert "add has no option --n, which belongs to conv2d, conv_transpose2d, conv2d_pool, max_pool" in err
    assert "leave it out, qconv-tune help add lists those it has" in err
    code, out, err = command(action, "add", "--shapes", "4")
    assert (code, out) == (2, "")
    assert "add has no option --shapes (did you mean --shape?): qconv-tune help add lists those it has" in err
    assert f"{action} has no option --zz: " in command(action, "--zz")[2]
    assert command(action, "add", "--n", "1", "--help")[0] == 0


def test_an_op_with_its_flags_is_the_word_that_build_and_export_take(
    command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(words: tuple[str, ...], *_: object) -> list[building.Built]:
        asked.append(words)
        return []

    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(building, "build", build)
    assert command("build", *CONV, "--target", "sm_80", "--device", "any")[0] == 2
    assert asked == [(KEY,)]
    assert command("export", *CONV, "--origin", "default", "--target", "cpu", "--out", "o")[1].count(KEY) == 1


def test_the_help_offers_a_type_to_the_op_that_takes_it(command: Callable[..., Answer]) -> None:
    for op, types in (
        ("conv2d", "conv2d: int8 (default), uint8, float16, bfloat16,"),
        ("requantize", "Conversions: int8, uint8, int16, "),
    ):
        code, out, _ = command("help", op)
        assert code == 0
        assert types in " ".join(out.split())
    for types in ("--x-type int16 --out-type uint8", "--x-type int32 --out-type uint16"):
        assert command("space", "requantize", "--shape", "64", *types.split(), "--target", "cpu")[0] == 0


@pytest.mark.parametrize("action", ["lookup", "tune", "run", "bench"])
def test_a_gpu_without_cupy_names_what_to_install(
    action: str, command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "qconv.device.gpu", raising=False)
    monkeypatch.setitem(sys.modules, "cupy", None)
    code, out, err = command(action, *CONV, "--device", "cuda:0")
    assert (code, out) == (3, "")
    assert "the device cuda:0 needs CuPy" in err
    assert "pip install 'qconv-tune[cuda]'" in err
    assert "qconv-tune[rocm]" in command("lookup", *CONV, "--device", "hip")[2]


def stored(path: Path, *devices: str) -> Path:
    """Create a database with a winner of each device."""
    plan = generator.default(parse(KEY), target("cpu"))
    with Database.open(path) as rows:
        for device in devices:
            row = Measurement(
                problem=plan.problem,
                config=plan.config,
                device=device,
                target="cpu",
                toolchain="g++ 0",
                digest=generator.render(plan).digest,
                outcome="correct",
                times_us=(2.0,),
                median_us=2.0,
            )
            rows.add(row)
    return path


@pytest.mark.parametrize(
    "action",
    [
        "db list",
        "lookup KEY --device cpu",
        "export --out out",
        "db export --out out.json",
        "db merge BAD --db new.sqlite",
    ],
)
def test_a_row_whose_config_has_no_parts_is_named(action: str, command: Callable[..., Answer], tmp_path: Path) -> None:
    bad = stored(tmp_path / "bad.sqlite", "any")
    with contextlib.closing(sqlite3.connect(bad, isolation_level=None)) as rows:
        rows.execute("update qconv_place set device = ?", (device_name(),))
        rows.execute("update qconv_config set json = ?", ('{"family": "unfused"}',))
    words = [{"KEY": KEY, "BAD": bad}.get(word, word) for word in action.split()]
    code, out, err = command(*words, *([] if "merge" in action else ["--db", bad]))
    assert (code, out) == (4, ""), err
    assert "bad.sqlite: row 1 of qconv_measurement" in err
    assert "must have exactly the fields first, second" in err


def device_name() -> str:
    return open_device("cpu").name


@pytest.mark.parametrize(
    "action", ["db list", "db list --best", "db export --out o.json", "db prune --failed", "export --out o"]
)
def test_a_device_that_no_row_is_of_is_told_with_those_there_are(
    action: str, command: Callable[..., Answer], tmp_path: Path
) -> None:
    path = stored(tmp_path / "two.sqlite", "NVIDIA H200", "AMD MI300X")
    code, out, err = command(*action.split(), "--device", "H100", "--db", path)
    assert (code, out) == (2, "")
    assert "'H100'" in err
    assert "matches nothing in the database; it has rows of AMD MI300X, NVIDIA H200: give one of those" in err
    assert not (tmp_path / "o").exists()
    empty = stored(tmp_path / "empty.sqlite")
    assert "it has no rows: tune first" in command(*action.split(), "--device", "H100", "--db", empty)[2]
    assert command(*action.split(), "--device", "NVIDIA H200", "--db", path)[0] == 0


def test_what_was_exported_as_text_can_be_merged(command: Callable[..., Answer], tmp_path: Path) -> None:
    path = stored(tmp_path / "two.sqlite", "NVIDIA H200", "AMD MI300X")
    assert command("db", "export", "--format", "text", "--out", "rows.json", "--db", path)[0] == 0
    assert (
        command("db", "merge", "rows.json", "--db", "new.sqlite")[1] == "rows.json: 2 added, 0 replaced, 0 unchanged\n"
    )
    assert command("db", "merge", "rows.json", path, "--db", "new.sqlite")[1].count("2 unchanged") == 2
    with Database.open(path) as old, Database.open("new.sqlite", create=False) as new:
        assert set(old.measurements()) == set(new.measurements())


@pytest.mark.parametrize(
    ("form", "change", "says"),
    [
        ("text", lambda text: text.replace("2.0", "-1.0"), "rows.json: row 1: "),
        ("text", lambda text: text[: len(text) // 2], "rows.json: not JSON as dumped"),
        ("t4", lambda text: text, "give what db export --format text wrote"),
    ],
    ids=["a row", "half", "t4"],
)
def test_a_file_that_cannot_be_merged_is_refused_before_anything_is_made(
    form: str, change: Callable[[str], str], says: str, command: Callable[..., Answer], tmp_path: Path
) -> None:
    path = stored(tmp_path / "two.sqlite", "NVIDIA H200", "AMD MI300X")
    assert command("db", "export", "--format", form, "--out", "rows.json", "--db", path)[0] == 0
    rows = tmp_path / "rows.json"
    rows.write_text(change(rows.read_text()))
    code, out, err = command("db", "merge", path, rows, "--db", "new.sqlite")
    assert (code, out) == (4, "")
    assert says in err
    assert not (tmp_path / "new.sqlite").exists()


def test_too_little_memory_is_said_in_words(command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError("Unable to allocate 384. GiB for an array")

    monkeypatch.setattr(registry, "draw", exhausted)
    code, out, err = command("run", *CONV, "--device", "cpu")
    assert (code, out) == (3, "")
    assert "too little memory for the problem: Unable to allocate 384. GiB" in err
