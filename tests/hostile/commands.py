"""Command lines, in this process: a refusal ends with an exit code and one sentence on stderr.

The device is a GPU that nobody has, and nothing may be compiled, so that no command line gets as far as tuning.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from unittest import mock

from measurement_samples import make_measurement

from qconv.cli import main
from qconv.tune_db.database import Database
from tests.hostile.judge import Refused, Surface, Wrong, check_sentence
from tests.hostile.mutations import WORDS, of_words

LAYER = "conv2d --n 1 --h 6 --w 6 --c 8 --k 8 --r 3 --s 3 --pad 1"
KEY = "conv2d:n=1:h=6:w=6:c=8:k=8:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8"
CONFIG = '{"family":"simt","tile_m":16,"tile_n":16,"tile_k":32,"thread_m":2,"thread_n":2,"pipeline_stages":1}'
NOBODYS = "--device cuda:99"
LINES = (
    f"lookup {LAYER} {NOBODYS}",
    f"lookup {LAYER} --stride 2,1 --dilation 1 --groups 2 --bias int32 --per-channel --activation relu {NOBODYS}",
    f"run {LAYER} --x-zero-point 3 --w-zero-point -4 --verify --seed 7 {NOBODYS}",
    f"bench {KEY} {NOBODYS} --json",
    f"tune {LAYER} --trials 8 --seconds 3 --timeout 20 --seed 1 --strategy bayesian {NOBODYS} --db tune.sqlite",
    f"tune --workload layers.csv --batch 2 --trials 3 {NOBODYS}",
    f"source {LAYER} --target sm_80 --config {CONFIG}",
    f"source fused {KEY} {KEY} --target sm_80 --config {CONFIG}",
    f"source quantize --shape 4,8 --x-type float32 --out-type int8 --target sm_80 --config {CONFIG}",
    "db list --db tune.sqlite --best --json",
    "db list --db tune.sqlite --device H200",
    "db merge rows.json --db new.sqlite",
    "db export --db tune.sqlite --out out.json --format text --best",
    "db prune --db tune.sqlite --failed --slower-than 3 --dry-run",
    "db refresh --db tune.sqlite --dry-run --trials 3",
    "export n=56 --db tune.sqlite --out exported --format sources",
    f"build {KEY} --target sm_80 --device H200 --out layer",
    "db list --db tune.sqlite --sort time --limit 3 --problem c=8 --config simt --csv",
    "cache list --kind kernel --csv",
    "cache clear --older-than 3 --dry-run",
    "quantize model.onnx --data data --size 8x8 --mean 0.5,0.5,0.5 --limit 2 --leave-out Conv",
    "compare model.onnx other.onnx --data data --sort error",
    "devices",
    "doctor --help",
    "--version",
)


@cache
def _home() -> Path:
    """Create the files and folders that the command lines name."""
    folder = Path(tempfile.mkdtemp(prefix="qconv-hostile-"))
    with Database.open(folder / "tune.sqlite") as rows:
        rows.add(make_measurement(0))
    (folder / "rows.json").write_text("[]\n")
    (folder / "layers.csv").write_text("model,layer,N,H,W,C,K,R,S,stride_h,stride_w\na,b,1,6,6,8,8,3,3,1,1\n")
    return folder


def draw(rng: Random) -> bytes:
    """Return a line as a list of words, some of them replaced."""
    words = rng.choice(LINES).split()
    options = [word for line in LINES for word in line.split() if word.startswith("--")]
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(words))
        way = rng.randrange(6)
        if way == 0:
            words[at] = of_words(rng, words[at])
        elif way == 1:
            words[at] = rng.choice(WORDS)
        elif way == 2:
            words.insert(at, rng.choice(options))
        elif way == 3:
            words.insert(at, rng.choice(words))
        elif way == 4:
            del words[at]
        else:
            words[at] = f"{words[at]}={rng.choice(WORDS)}"
        words = words or [""]
    return json.dumps(words).encode()


def take(given: bytes) -> None:
    """Run the line, and raise the command's refusal. Arguments of a process contain no zero byte, so these are left
    out."""
    words = [word.replace("\0", "") for word in json.loads(given)]
    if "refresh" in words and "--dry-run" not in words:
        return  # it would tune
    with _at_home():
        # Its stdout accepts the same text as a process's: no lone surrogates.
        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        err = io.TextIOWrapper(shown := io.BytesIO(), "utf-8", errors="backslashreplace", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _exit_code(words)
            out.flush()
        said = shown.getvalue().decode()
    if code not in (0, 1, 2, 3, 4):
        raise Wrong(f"exit code {code}: {said!r}")
    if code in (2, 3, 4) and "doctor" not in words:  # it reports problems on stdout
        message = said.rpartition("Error: ")[2]
        if not message:
            raise Wrong(f"exit code {code} without an error: {said!r}")
        check_sentence(message.strip())
        raise Refused(message)


def _exit_code(words: list[str]) -> int:
    try:
        main(words)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    except Exception as error:
        raise Wrong(f"a traceback of {type(error).__name__}: {error}") from error
    return 0


@contextlib.contextmanager
def _at_home() -> Iterator[None]:
    home = _home()
    set_to = {"QCONV_NO_COMPILE": "1", "QCONV_CACHE": str(home / "cache"), "QCONV_PATH": "", "HOME": str(home)}
    with mock.patch.dict(os.environ, set_to), contextlib.chdir(home):
        yield


SURFACES = (Surface("commands", draw, take, cases=5_000),)
