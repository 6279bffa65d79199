"""Values that are stored in fewer bytes than their text has: digests, times and dates. Each reads back exactly what was
stored, and refuses with ValueError what was not stored so."""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DIGITS = re.compile(r"[0-9a-f]{32}")
# What a hexadecimal digest takes. No other word is stored in so many: it has a zero more.
_DIGEST_BYTES = 16


def digest_to_bytes(digest: str) -> bytes:
    """A generated source's digest is 32 digits; any other word is its text."""
    if _DIGITS.fullmatch(digest):
        return bytes.fromhex(digest)
    word = digest.encode()
    return word + b"\0" if len(word) == _DIGEST_BYTES else word


def digest_from_bytes(stored: object) -> str:
    if not isinstance(stored, bytes):
        raise ValueError(f"digest is {repr(stored)[:160]}, which is not bytes")
    if len(stored) == _DIGEST_BYTES:
        return stored.hex()
    try:
        return stored.removesuffix(b"\0").decode()
    except UnicodeDecodeError:
        raise ValueError(f"digest is {repr(stored)[:160]}, which is neither 16 bytes nor text") from None


def times_to_bytes(times_us: tuple[float, ...]) -> bytes:
    return struct.pack(f"<{len(times_us)}d", *times_us)


def times_from_bytes(stored: object) -> tuple[float, ...]:
    if not isinstance(stored, bytes) or len(stored) % 8:
        raise ValueError(f"times_us is {repr(stored)[:160]}, which is not the bytes of doubles")
    return struct.unpack(f"<{len(stored) // 8}d", stored)


def time_to_number(time: datetime) -> int:
    """Microseconds since 1970: the order of the numbers is the order of the times."""
    return (time - _EPOCH) // _MICROSECOND


def time_from_number(stored: object) -> datetime:
    if isinstance(stored, int) and not isinstance(stored, bool):
        try:
            return _EPOCH + timedelta(microseconds=stored)
        except OverflowError:
            pass
    raise ValueError(f"created_at is {repr(stored)[:160]}, which is no number of microseconds since 1970")
