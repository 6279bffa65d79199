"""Valid inputs made hostile: in their bytes, their words, and their structure as JSON."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

# Numbers at and beyond limits, words that look like numbers, and text that other programs fail on.
WORDS = (
    *("", " ", "0", "-0", "-1", "1", "2", "3", "127", "128", "255", "256", "65536", "1000000", "+1", "007", "1_000"),
    *("2147483647", "2147483648", "-2147483648", "4294967296", "9223372036854775808", "9" * 40, "9" * 5000),
    *("1.0", "1e3", "1e309", "-1e309", "nan", "NaN", "inf", "Infinity", "0x10", "0b1", "1j"),
    *("\u0663", "\uff11", "\u00b2", "e\u0301", "\u200b", "\u202e", "\ud800", "\udcff", "\U0001f600", "\0", "\n", "\t"),
    *("\r\n", "\x1b[31m", "\x7f", "\ufeff", "true", "false", "null", "None", "[]", "{}", "()", "'", '"', "\\", "%s%n"),
    *("${HOME}", "$(id)", "`id`", "; rm x", "../../x", "/dev/zero", "/", "~", "*", "--", "-", "@file", "http://x/"),
    *("__import__('os')", "{0.__class__}", "int8", "uint8", "float32", "int4", "relu", "any", "simt", "mma", "conv2d"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**63, 2**64, 10**400, 0.5, 1e308),
    *(float("nan"), float("inf"), -0.0, [], {}, [[]], {"": None}, [1, 2, 3], {"a": {"b": []}}, *WORDS),
)
_DELIMITED = re.compile(r"([:=,|\s\"'{}\[\]/+.]+)")


def of_bytes(rng: Random, data: bytes) -> bytes:
    """Apply one to eight changes: a bit, a byte, a run removed, doubled, moved or zeroed, and a truncation."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at, length = rng.randrange(len(content) + 1), rng.choice((1, 1, 2, 4, 16, 256))
        run = content[at : at + length]
        way = rng.randrange(8)
        if way == 0 and run:
            content[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            content[at : at + 1] = bytes([rng.randrange(256)])
        elif way == 2:
            del content[at : at + length]
        elif way == 3:
            content[at:at] = run
        elif way == 4:
            content[at : at + length] = bytes(len(run))
        elif way == 5:
            content[at:at] = rng.choice(WORDS[:30]).encode("utf-8", "surrogatepass")
        elif way == 6:
            there = rng.randrange(len(content) + 1)
            content[there:there] = run
        else:
            del content[at + rng.randrange(len(content) + 1 - at) :]
    return bytes(content)


def of_words(rng: Random, text: str, more: Sequence[str] = ()) -> str:
    """Replace, remove, double or exchange words and delimiters."""
    parts = _DELIMITED.split(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(parts))
        numbers = [number for number, part in enumerate(parts) if part.isascii() and part.isdigit()]
        way = rng.randrange(7)
        if way >= 5 and numbers:
            at = rng.choice(numbers)
            parts[at] = str(max(0, int(parts[at][:9]) * rng.choice((1, 1, 2)) + rng.choice((-1, 0, 1, 4))))
        elif way == 0:
            parts[at] = rng.choice(WORDS)
        elif way == 1 and more:
            parts[at] = rng.choice(more)
        elif way == 2 and len(parts) > 1:
            del parts[at]
        elif way == 3:
            parts.insert(at, parts[rng.randrange(len(parts))])
        else:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
    return "".join(parts)


def of_json(rng: Random, text: str) -> str:
    """Replace, remove, rename, double or deeply nest a value."""
    document = copy.deepcopy(json.loads(text))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _changed(rng, document)
    written = json.dumps(document, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.05:  # a duplicate name
        name = re.search(r'"\w+": ', written)
        if name is not None:
            written = written[: name.start()] + f"{name.group()}1, " + written[name.start() :]
    return written


def _changed(rng: Random, document: Any) -> Any:
    if not isinstance(document, (dict, list)) or not document or rng.random() < 0.05:
        return rng.choice(VALUES) if rng.random() < 0.9 else _deep(rng, document)
    key: Any = rng.choice(list(document)) if isinstance(document, dict) else rng.randrange(len(document))
    if isinstance(document[key], (dict, list)) and rng.random() < 0.7:
        document[key] = _changed(rng, document[key])
        return document
    way = rng.randrange(4)
    if way == 0:
        del document[key]
    elif way == 1 and isinstance(document, dict):
        document[rng.choice(WORDS)] = document.pop(key)
    else:
        document[key] = rng.choice(VALUES)
    return document


def _deep(rng: Random, document: Any) -> Any:
    for _ in range(rng.choice((3, 200))):
        document = [document]
    return document


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def decoded(given: bytes) -> str:
    """Return the text as decoded on a command line: invalid UTF-8 becomes lone surrogates."""
    return given.decode("utf-8", "surrogateescape")
