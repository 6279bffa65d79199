"""GPUs that are visible without a driver or package, for the warning when the CPU device is used instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NVIDIA_ON_PCI, _DISPLAY = "0x10de", "0x03"
EXTRAS = {"NVIDIA": "cuda", "AMD": "rocm"}


@dataclass(frozen=True)
class SeenGpu:
    vendor: str
    evidence: str  # the file that shows it

    @property
    def extra(self) -> str:
        """Return the name of the extra that installs its packages."""
        return EXTRAS[self.vendor]

    def __str__(self) -> str:
        article = "an" if self.vendor[0] in "AN" else "a"
        return f"{article} {self.vendor} GPU is here ({self.evidence})"


def seen_gpus(root: Path = Path("/")) -> tuple[SeenGpu, ...]:
    """Return at most one GPU per vendor."""
    found: dict[str, SeenGpu] = {}
    for gpu in _seen(root):
        found.setdefault(gpu.vendor, gpu)
    return tuple(found.values())


def _seen(root: Path) -> Iterator[SeenGpu]:
    # An AMD GPU counts only with its compute driver: many laptops have one that cannot compute.
    for vendor, name in (("NVIDIA", "dev/nvidia0"), ("NVIDIA", "proc/driver/nvidia/version"), ("AMD", "dev/kfd")):
        if (root / name).exists():
            yield SeenGpu(vendor, str(root / name))
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _read(device / "vendor") == _NVIDIA_ON_PCI and _read(device / "class").startswith(_DISPLAY):
            yield SeenGpu("NVIDIA", str(device))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
