"""Other spellings of a problem's key, each of which `qconv.parse` reads as the same problem."""

from __future__ import annotations

import random
from collections.abc import Iterator

import qconv
from qconv.instances.library.spelling import KeyField, grammars
from qconv.op import BETWEEN, Problem, parts_of_key


def spellings(problem: Problem, rng: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        parts = parts_of_key(str(problem))
        found = BETWEEN.join(_respelled(part, grammars([problem]), rng) for part in parts)
        if qconv.parse(found) == problem:
            yield found


def _respelled(part: str, rules: dict[str, tuple[KeyField, ...]], rng: random.Random) -> str:
    op, *given = part.split(":")
    fields: dict[str, str | None] = {}
    for one in given:
        name, equals, value = one.partition("=")
        fields[name] = value if equals else None
    for field in rules[op]:
        _add_default(field, fields, rng)
    spelled = [_spelled(field, fields[field.name], rng) for field in _each(rules[op]) if field.name in fields]
    rng.shuffle(spelled)
    blanks = [rng.choice(("", " ", "\n")) for _ in range(2)]
    return blanks[0] + ":".join([op, *(one for one in spelled if one)]) + blanks[1]


def _each(fields: tuple[KeyField, ...]) -> list[KeyField]:
    return list({field.name: field for field in fields}.values())


def _add_default(field: KeyField, fields: dict[str, str | None], rng: random.Random) -> None:
    if field.name in fields or field.spelled == "flag" or not field.standard or rng.random() < 0.5:
        return
    if field.where is not None and fields.get(field.where[0]) != field.where[1]:
        return
    widths = str(fields.get("widths") or "")
    fields[field.name] = {"=widths": widths, "0*widths": ",".join("0" * (widths.count(",") + 1))}.get(
        field.standard, field.standard
    )


def _spelled(field: KeyField, value: str | None, rng: random.Random) -> str:
    if value is None:
        return field.name
    text = str(value)
    numbers = text.split(",")
    if field.spelled == "integers" and field.count and len(set(numbers)) == 1 and rng.random() < 0.5:
        numbers = numbers[:1]
    if field.spelled in ("integer", "integers"):
        text = ",".join(_with_zeros(number, rng) for number in numbers)
    elif field.spelled == "real":
        text = rng.choice((text, f"{float(text):.20e}", f"0{text}"))
    elif field.spelled == "operands":
        text = ",".join(one.replace("*", "*" + "0" * rng.randrange(3)) for one in numbers) + "," * rng.randrange(2)
    elif field.standard == value and rng.random() < 0.5:
        return ""
    return f"{field.name}={text}"


def _with_zeros(number: str, rng: random.Random) -> str:
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    return sign + "0" * rng.randrange(3) + digits
