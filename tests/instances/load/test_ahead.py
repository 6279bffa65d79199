"""Kernels compiled ahead of their lookups: each once, and each with the choice that its lookup takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from qconv import generator
from qconv.conversion import Quantize
from qconv.device import open_device
from qconv.errors import CompileError
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import choose
from qconv.instances.load import ahead, serving
from qconv.instances.load.ahead import compile_ahead, looked_up, lookup_all
from qconv.instances.load.choice_cache import ChoiceCache
from qconv.instances.load.serving import in_sequence, is_in_sequence, lookup
from qconv.op import Problem

CPU = open_device("cpu")
PROBLEMS = [Quantize(1, 1, count, out_type="uint8") for count in (10, 20, 30)]


@pytest.fixture(autouse=True)
def _no_memory() -> Iterator[None]:
    serving.forget()
    yield
    serving.forget()


class Forgetful(ChoiceCache):
    """A cache on disk that keeps nothing."""

    @classmethod
    def of(cls, databases: Sequence[str]) -> ChoiceCache:
        return cls(None)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[Problem]:
    """Count the builds of each problem's kernels. Nothing is compiled."""
    seen: Counter[Problem] = Counter()
    monkeypatch.setattr(ahead, "build", lambda source, plan, toolchain: seen.update([plan.problem]))
    return seen


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Counter[Problem]:
    """Count the choices that are made anywhere."""
    seen: Counter[Problem] = Counter()

    def counted(problem: Problem, *given: Any) -> Any:
        seen.update([problem])
        return choose(problem, *given)

    monkeypatch.setattr(serving, "choose", counted)
    monkeypatch.setattr(serving, "ChoiceCache", Forgetful)
    return seen


def prepare(*problems: Problem) -> Callable[[], object]:
    return lambda: [lookup(problem, "cpu") for problem in problems]


def refused() -> object:
    raise ValueError("no kernel serves these shapes")


def test_the_first_lookup_of_each_is_noted_and_none_is_answered(chosen: Counter[Problem]) -> None:
    one, two, three = PROBLEMS
    assert looked_up([prepare(one, two), refused, prepare(three), prepare(one), lambda: None]) == [one, three, one]
    assert not chosen
    assert not serving.is_answered()


def test_each_kernel_is_built_once(built: Counter[Problem]) -> None:
    compile_ahead([*PROBLEMS, *PROBLEMS], CPU)
    assert built == Counter(PROBLEMS)


def test_a_lookup_takes_the_choice_that_was_made(chosen: Counter[Problem], built: Counter[Problem]) -> None:
    with in_sequence():
        compile_ahead(PROBLEMS[:2], CPU)
        assert chosen == Counter(PROBLEMS[:2])
        (answer,) = serving.answers(PROBLEMS[:1], CPU, None, is_in_sequence())
        assert isinstance(answer, Choice)
        assert lookup(PROBLEMS[0], "cpu").choice.plan is answer.plan
    assert chosen == Counter(PROBLEMS[:2])
    lookup(PROBLEMS[1], "cpu")  # outside of a sequence, which is another choice
    assert chosen[PROBLEMS[1]] == 2


def test_a_forgotten_choice_is_made_again(chosen: Counter[Problem], built: Counter[Problem]) -> None:
    compile_ahead(PROBLEMS[:2], CPU)
    serving.forget()
    lookup(PROBLEMS[0], "cpu")
    assert chosen[PROBLEMS[0]] == 2


def test_a_kernel_is_rendered_once(monkeypatch: pytest.MonkeyPatch, built: Counter[Problem]) -> None:
    rendered: list[Problem] = []
    render = generator.render

    def counted(plan: generator.Plan) -> generator.Source:
        rendered.append(plan.problem)
        return render(plan)

    monkeypatch.setattr(generator, "render", counted)
    compile_ahead(PROBLEMS, CPU)
    for problem in PROBLEMS:
        lookup(problem, "cpu")
    assert rendered == PROBLEMS


def test_what_is_loaded_or_alone_is_left_to_its_lookup(built: Counter[Problem]) -> None:
    compile_ahead(PROBLEMS[:1], CPU)
    assert not built
    for problem in PROBLEMS[:2]:
        lookup(problem, "cpu")
    compile_ahead(PROBLEMS, CPU)
    assert not built


def test_nothing_is_compiled_where_that_is_forbidden_or_others_answer(
    built: Counter[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving.answered_by(lambda problem: None):  # type: ignore[arg-type, return-value]
        compile_ahead(PROBLEMS, CPU)
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    compile_ahead(PROBLEMS, CPU)
    assert not built


def test_a_failing_compiler_is_left_to_the_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any) -> Any:
        raise CompileError("the compiler failed")

    monkeypatch.setattr(ahead, "build", failing)
    compile_ahead(PROBLEMS, CPU)
    assert lookup(PROBLEMS[0], "cpu").problem == PROBLEMS[0]


def test_all_kernels_of_a_layer_are_recorded() -> None:
    first, second, third = PROBLEMS

    def layer() -> None:
        lookup_all([first, second], "cpu")
        pytest.fail("a recorded lookup was answered")

    assert looked_up([layer, lambda: lookup(third, "cpu")]) == PROBLEMS
    assert [one.problem for one in lookup_all([third, first], "cpu")] == [third, first]
