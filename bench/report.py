"""The common part of every suite: device, driver, toolchain, clocks, protocol, commit and rows, written to
bench/results/<device>/<suite>.json."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from document import write_document

from qconv.device import Device
from qconv.device.compile import compiler_for

# Packages on which a figure may depend, if installed.
PACKAGES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "nvidia-cudnn-cu13", "nvidia-cudnn-frontend")


def head() -> str | None:
    """Return this checkout's commit, or None."""
    try:
        answer = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return answer.stdout.strip() or None


def driver_version() -> str | None:
    """Return the driver version in the vendor's numbering, or None without nvidia-ml-py (the bench extra) or an NVIDIA
    driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)
    except Exception:  # informational only: any error means that it is missing
        return None


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class Report:
    """One suite's results. Create it before the first measurement: it records the clock then and at every write."""

    def __init__(
        self, folder: Path, suite: str, device: Device, protocol: dict[str, Any], commit: str | None = None
    ) -> None:
        self.path = folder / f"{suite}.json"
        self.commit = commit or head()
        self._device = device
        facts = device.facts()
        self._first_mhz = facts.pop("clock_now_mhz", None)
        self._constant = {
            "suite": suite,
            "device": facts,
            "driver": driver_version(),
            "toolchain": compiler_for(device.target).toolchain,
            "packages": versions(),
            "protocol": protocol,
            "commit": self.commit,
        }

    def write(self, rows: list[dict[str, Any]], summary: dict[str, Any] | None = None) -> None:
        """Write the results. Call it after every row to keep the measurements before an interruption."""
        clocks = {"sm_before_mhz": self._first_mhz, "sm_after_mhz": self._device.facts().get("clock_now_mhz")}
        document = self._constant | {"clocks": clocks, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        document |= {"summary": summary} if summary else {}
        write_document(self.path, document | {"rows": rows})
