"""Chromium without a window, for pages that are files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

HEADLESS = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files")


def program() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "no Chromium: apt-get install chromium"
    return found


def title_set_by(script: str, page: Path, width: int) -> str:
    """Return the title that a script sets. The page is in a frame `f` of the given width, because windows have a
    minimum width."""
    probe = page.with_name("probe.html")
    frame = f'<iframe id="f" src="{page.name}" width="{width}" height="900"></iframe>'
    probe.write_text(
        f"<!doctype html><title>none</title>{frame}<script>f.onload = async () => {{ {script} }};</script>"
    )
    shown = [program(), *HEADLESS, "--dump-dom", "--virtual-time-budget=3000", probe.as_uri()]
    said = subprocess.run(shown, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<title>([^<]*)</title>", said)
    assert found, said[:300]
    return found.group(1)
