"""GPUs by the names that their vendors sell them under, and the architecture of each.

NVIDIA: "CUDA GPUs" (developer.nvidia.com/cuda-gpus) and its list of legacy GPUs. AMD: LLVM's "User Guide for AMDGPU
Backend", processors. An architecture without a target is listed so that its owner gets the reason and no wrong hint.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

GPU_NAMES: dict[str, tuple[str, ...]] = {
    "sm_75": (
        *("t4", "rtx2080ti", "rtx2060", "rtx2070", "rtx2080", "t4g", "titan-rtx"),
        *("quadro-rtx4000", "quadro-rtx5000", "quadro-rtx6000", "quadro-rtx8000"),
    ),
    "sm_80": ("a100", "a30", "a800", "a100x"),
    "sm_86": (
        *("rtx3090", "rtx3060", "a10", "a10g", "a16", "a2", "a40", "rtx3050", "rtx3060ti", "rtx3070", "rtx3070ti"),
        *("rtx3080", "rtx3080ti", "rtx3090ti", "rtx-a2000", "rtx-a4000", "rtx-a4500", "rtx-a5000", "rtx-a6000"),
    ),
    "sm_87": ("orin", "agx-orin", "orin-nx", "orin-nano"),
    "sm_89": (
        *(
            "rtx4090",
            "l4",
            "l40s",
            "l20",
            "l40",
            "rtx4050",
            "rtx4060",
            "rtx4060ti",
            "rtx4070",
            "rtx4070super",
            "rtx4070ti",
        ),
        *("rtx4070tisuper", "rtx4080", "rtx4080super", "rtx4090d"),
        *("rtx2000ada", "rtx4000ada", "rtx4500ada", "rtx5000ada", "rtx6000ada"),
    ),
    "sm_90a": ("h100", "h200", "h20", "h800", "gh200"),
    "sm_100a": ("b200", "b100", "gb200"),
    "sm_103a": ("b300", "gb300"),
    "sm_110a": ("thor", "agx-thor", "t5000", "t4000"),
    "sm_120": (
        *("rtx5090", "rtx5060", "rtx-pro6000", "rtx5050", "rtx5060ti", "rtx5070", "rtx5070ti", "rtx5080", "rtx5090d"),
        *("rtx-pro4000", "rtx-pro4500", "rtx-pro5000"),
    ),
    "sm_121": ("gb10", "spark", "dgx-spark"),
    "gfx906": ("mi50", "mi60", "radeon-vii"),
    "gfx908": ("mi100",),
    "gfx90a": ("mi210", "mi250", "mi250x"),
    "gfx942": ("mi300x", "mi300a", "mi308x", "mi325x"),
    "gfx950": ("mi350x", "mi355x"),
    "gfx1030": ("rx6900xt", "rx6800xt", "rx6800", "rx6950xt", "w6800"),
    "gfx1100": ("rx7900xtx", "rx7900xt", "rx7900gre", "w7800", "w7900"),
    "gfx1150": ("strix-point", "890m", "880m"),
    "gfx1151": ("strix-halo", "8060s", "8050s"),
    "gfx1200": ("rx9060xt", "rx9060"),
    "gfx1201": ("rx9070xt", "rx9070", "r9700"),
    # No target has these.
    "sm_60": ("p100",),
    "sm_61": ("p4", "p40", "gtx1050", "gtx1060", "gtx1070", "gtx1080", "gtx1080ti", "titan-xp"),
    "sm_62": ("tx2",),
    "sm_70": ("v100", "titan-v"),
    "sm_72": ("xavier", "agx-xavier", "xavier-nx"),
    "gfx900": ("mi25", "vega56", "vega64"),
    "gfx1010": ("rx5700", "rx5700xt"),
    "gfx1031": ("rx6700xt", "rx6750xt"),
    "gfx1032": ("rx6600", "rx6600xt", "rx6650xt"),
    "gfx1101": ("rx7700xt", "rx7800xt"),
    "gfx1102": ("rx7600", "rx7600xt"),
    "gfx1103": ("780m", "760m"),
}
# Words of a driver's name that say nothing of the architecture.
SAYS_NOTHING = re.compile(
    r"nvidia|geforce|tesla|amd|ati|radeon|instinct|jetson|graphics|gpu|laptop|mobile|generation|blackwell|server"
    r"|workstation|edition|max|q|pcie|nvl|sxm\d*|hbm\d*e?|\d+gb"
)
WORDS = re.compile(r"[a-z0-9]+")
LEAST_LIKE = 0.8
MOST_NEAR = 3


def plain(name: str) -> str:
    """Return a GPU's name without case, separators and words that say nothing: "NVIDIA GeForce RTX 4090" ->
    "rtx4090"."""
    words = WORDS.findall(name.lower())
    return "".join(word for word in words if SAYS_NOTHING.fullmatch(word) is None) or "".join(words)


_ARCHITECTURES = {plain(name): architecture for architecture, names in GPU_NAMES.items() for name in names}


def architecture_of_gpu(name: str) -> str | None:
    """Return the architecture of a GPU by any spelling of its name, or None for one that is not known."""
    return _ARCHITECTURES.get(plain(name))


def near_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the few names that `name` is a part of, or else the one that it is almost."""
    given, known = plain(name), {plain(one): one for one in names}
    holding = [one for text, one in known.items() if given in text] if len(given) > 2 else []
    if 0 < len(holding) <= MOST_NEAR:
        return tuple(holding)
    return tuple(known[text] for text in difflib.get_close_matches(given, known, n=1, cutoff=LEAST_LIKE))
