"""The rules of keys that a library carries: they know every field, and its default, of every op."""

from __future__ import annotations

import pytest
from library_cases import CASES

import qconv
from qconv.instances.library.spelling import TRANSPOSED, KeyField, grammars
from qconv.op import Problem, parts_of_key

PROBLEMS = {problem.op: problem for _, _, problem in CASES}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_every_field_of_a_key_is_known(problem: Problem) -> None:
    rules = grammars([problem])
    for part in parts_of_key(str(problem)):
        op, *fields = part.split(":")
        assert {field.partition("=")[0] for field in fields} <= {field.name for field in rules[op]}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_default_may_be_given(problem: Problem) -> None:
    """One at a time, where the key of a single part has none."""
    key = parts_of_key(str(problem))[-1]
    op, *given = key.split(":")
    held = dict(one.partition("=")[::2] for one in given)
    parsed, rules = qconv.parse(key), grammars([problem])[op]
    all_held: dict[str, str | None] = dict(held)
    for field in rules:
        is_meant = field.where is None or all_held[field.where[0]] == field.where[1]
        if is_meant:
            all_held.setdefault(field.name, field.standard)
        if field.name not in held and field.standard and is_meant:
            assert qconv.parse(f"{key}:{field.name}={standard_of(field, held)}") == parsed


def standard_of(field: KeyField, held: dict[str, str]) -> str:
    count = held.get("widths", "").count(",") + 1
    return {"=widths": held.get("widths", ""), "0*widths": ",".join("0" * count)}.get(
        str(field.standard), str(field.standard)
    )


def test_a_convolution_may_be_spelled_as_a_transposed_one() -> None:
    assert {"conv2d", TRANSPOSED} <= set(grammars([PROBLEMS["conv2d"]]))
    assert TRANSPOSED not in grammars([PROBLEMS["table"]])


def test_a_problem_of_no_known_kind_is_refused() -> None:
    class Strange(Problem):
        op = "strange"

    with pytest.raises(ValueError, match="Strange is a problem whose keys no library reads: export its sources"):
        grammars([Strange()])
