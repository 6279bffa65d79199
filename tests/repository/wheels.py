"""Install wheels as users do, into a clean environment of each Python on this machine, and use them.

    python tests/repository/wheels.py DIST    # status 1 if one fails; a missing Python is named

DIST has the output of `python -m build`. The wheel is installed under each Python, the sdist under the newest, which
builds it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST_BYTES = 3 * 2**20
LAYER = ["conv2d", "--n", "1", "--h", "6", "--w", "6", "--c", "8", "--k", "8", "--r", "3", "--s", "3", "--x-zero-point"]


def found(version: str) -> Path | None:
    """Return the interpreter of this version: on PATH, or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = shutil.which(f"python{version}")
    candidates = [*([Path(named)] if named else []), *sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    return next((path for path in candidates if _is(path, version)), None)


def _is(path: Path, version: str) -> bool:
    """Return true if the interpreter runs and has this version; a shim of pyenv refuses to run an unselected one."""
    told = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", told], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def steps(bin_folder: Path) -> Iterator[Sequence[str]]:
    """Yield a user's commands."""
    tune = str(bin_folder / "qconv-tune")
    yield [tune, "--version"]
    yield [tune, "help", "conv2d"]
    yield [tune, "source", *LAYER, "--target", "sm_90a"]
    yield [tune, "lookup", *LAYER, "--device", "cpu", "--json"]
    yield [tune, "run", *LAYER, "--device", "cpu", "--verify"]
    yield [tune, "tune", *LAYER, "--device", "cpu", "--trials", "3", "-q"]
    yield [tune, "export", "--out", "exported"]


def try_out(python: Path, archive: Path, folder: Path) -> str | None:
    """Return why the archive does not work with this Python, or None."""
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    bin_folder = folder / "venv" / "bin"
    environment = {**os.environ, "QCONV_CACHE": str(folder / "cache")}
    commands: list[Sequence[str]] = [[str(bin_folder / "pip"), "install", "-q", str(archive)], *steps(bin_folder)]
    for command in commands:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}"
    return None


def main() -> None:
    dist = Path(sys.argv[1]).resolve()
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1024:.0f} KiB; {sdist.name}: {sdist.stat().st_size / 1024:.0f} KiB")
    failures = []
    if size > LARGEST_BYTES:
        failures.append(f"{wheel.name} has {size} bytes, at most {LARGEST_BYTES} are wanted")
    here = {version: python for version in PYTHONS if (python := found(version)) is not None}
    for version in PYTHONS:
        if version not in here:
            print(f"Python {version}: not on this machine, so not tried")
    tried = [(version, python, wheel) for version, python in here.items()]
    tried += [(version, python, sdist) for version, python in list(here.items())[-1:]]
    for version, python, archive in tried:
        with tempfile.TemporaryDirectory(prefix="qconv-wheel-") as folder:
            why = try_out(python, archive, Path(folder))
        print(f"Python {version}, {archive.name}: {'works' if why is None else why}", flush=True)
        failures += [] if why is None else [f"Python {version}: {why}"]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    if not tried or oldest != PYTHONS[0]:
        failures.append(f"tried {len(tried)}; the oldest Python is {oldest}, and this script begins with {PYTHONS[0]}")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
