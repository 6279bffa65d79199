"""What families, their fields and those of a timing protocol were called when older databases were written: their
rows are still read."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")

FAMILIES = {"apart": "unfused"}
_PIPELINE = {"stages": "pipeline_stages"}
_TILES = {"residents": "blocks_per_sm"}
_CHAIN = _TILES | {"shares": "cluster_blocks", "holds": "weights_in_smem", "wide": "on_wgmma"}
FIELDS: dict[str, dict[str, str]] = {
    "simt": _PIPELINE,
    "mma": _PIPELINE
    | {
        "ahead": "prefetch_fragments",
        "tail": "split_last_wave",
        "stream": "stream_k",
        "band": "tile_swizzle_width",
    },
    "direct": _TILES,
    "stem": _TILES,
    "fused": _CHAIN,
    "block": _CHAIN,
}

PROTOCOL = {"stage": "phase"}


def family_today(name: str) -> str:
    return FAMILIES.get(name, name)


def fields_today(family: str, values: dict[str, Value]) -> dict[str, Value]:
    """The fields of a config of this family as they are called today; a text that has both names is left as it is."""
    names = FIELDS.get(family, {})
    if any(old in values and new in values for old, new in names.items()):
        return values
    return {names.get(name, name): value for name, value in values.items()}


def protocol_today(values: dict[str, Value]) -> dict[str, Value]:
    """A timing protocol with its fields as they are called today."""
    return {PROTOCOL.get(name, name): value for name, value in values.items()}
