"""What every suite writes: device, toolchain, protocol, commit and rows, as bench/results/<device>/<suite>.json."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qconv.device import Device
from qconv.device.compile import compiler_for


def head() -> str | None:
    """This checkout's commit, where there is one."""
    try:
        answer = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return answer.stdout.strip() or None


def write(
    folder: Path, suite: str, device: Device, protocol: dict[str, Any], commit: str | None, rows: list[dict[str, Any]]
) -> None:
    document = {
        "suite": suite,
        "device": device.facts(),
        "toolchain": compiler_for(device.target).toolchain,
        "protocol": protocol,
        "commit": commit or head(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{suite}.json").write_text(json.dumps(document, indent=1) + "\n")
