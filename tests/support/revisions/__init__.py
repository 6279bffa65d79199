"""Another revision of this repository, in its own folder, and the sources that it generates."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
WORKING_TREE = "."

Case = dict[str, Any]  # name, problem, config, target
Answer = dict[str, Any]  # digest and kernels, or the reason of a refusal


class Revision:
    """A commit, or the working tree with its untracked files. `folder` is empty at first."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.root = name, folder
        if name == WORKING_TREE:
            _copy(folder)
        else:
            archive = subprocess.check_output(["git", "archive", name], cwd=ROOT)
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(folder, filter="data")
        # The pyproject.toml of commits before the links in src/qconv says where `qconv.generator` is.
        project = tomllib.loads((folder / "pyproject.toml").read_text())
        for package, place in project["tool"]["setuptools"]["package-dir"].items():
            if not package:
                continue
            link = folder / "src" / package.replace(".", "/")
            if not link.exists():
                link.symlink_to(folder / place, target_is_directory=True)

    def drawn(self, count: int, seed: int) -> list[Case]:
        """Return the revision's golden cases, its shipped winners, and `count` random plans."""
        return [dict(case) for case in self._run("draw.py", "", str(count), str(seed))]

    def answers(self, cases: Sequence[Case]) -> list[Answer]:
        return [dict(answer) for answer in self._run("render.py", json.dumps(list(cases)))]

    def _run(self, script: str, text: str, *arguments: str) -> list[Any]:
        """Run the revision's own script, which knows its names, or today's if the revision has none."""
        own = self.root / "tests/support/revisions" / script
        path = own if own.is_file() else ROOT / "tests/support/revisions" / script
        command = [sys.executable, str(path), str(self.root), *arguments]
        environment = os.environ | {"PYTHONPATH": str(self.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=self.root, env=environment, input=text, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{script} fails with the code of {self.name}: it says why above")
        return list(json.loads(done.stdout))


def _copy(folder: Path) -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.check_output(command, cwd=ROOT, text=True).split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name, follow_symlinks=False)
