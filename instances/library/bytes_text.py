"""Bytes as C++ source: a string literal, which compilers read much faster than a list of numbers."""

from __future__ import annotations

from collections.abc import Iterator

PER_LINE = 24


def literal(data: bytes) -> str:
    """In octal digits, behind which a backslash or the end follows, and never another digit."""
    return "\n".join(_lines(data))


def _lines(data: bytes) -> Iterator[str]:
    for at in range(0, len(data), PER_LINE):
        yield '    "' + "".join(f"\\{byte:o}" for byte in data[at : at + PER_LINE]) + '"'


def array_text(name: str, data: bytes) -> str:
    """A definition for a namespace; the literal's last zero is no part of the size."""
    return (
        f"extern const unsigned char {name}[];\nextern const size_t {name}_bytes;\n"
        f"alignas(64) const unsigned char {name}[] =\n{literal(data)};\nconst size_t {name}_bytes = {len(data)};\n"
    )
