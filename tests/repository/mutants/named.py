"""Node ids of the tests that most mutants of the templates name: one plan under a sanitizer, or a few random ones."""

from __future__ import annotations

SEEDS = {"address": 2, "thread": 3}  # of test_mma_sanitizers: copies late, copies early


def simt(plan: str, sanitizer: str = "address") -> str:
    return f"test_simt_sanitizers.py::test_nothing_is_found[{plan}-{sanitizer}]"


def simt_random(*firsts: int) -> tuple[str, ...]:
    return tuple(f"test_simt_random.py::test_a_random_config[{first}]" for first in firsts)


def mma(plan: str, sanitizer: str = "address") -> str:
    return f"test_mma_sanitizers.py::test_nothing_is_found[{plan}-{sanitizer}-{SEEDS[sanitizer]}]"


def mma_random(target: str) -> str:
    return f"test_mma_random.py::test_a_random_config[cpu.{target}-0]"


def special(plan: str, sanitizer: str = "address") -> str:
    return f"test_special_sanitizers.py::test_nothing_is_found_by_{sanitizer}[{plan}]"


def special_random(family: str) -> str:
    return f"test_special_random.py::test_a_random_config[{family}]"


def fused(plan: str, sanitizer: str = "address") -> str:
    return f"test_fused_sanitizers.py::test_nothing_is_found_by_{sanitizer}[{plan}]"


def fused_random(target: str) -> str:
    return f"test_fused_random.py::test_a_random_config[cpu.{target}]"


def block_random(target: str) -> str:
    return f"test_fused_random.py::test_a_random_config_of_three[cpu.{target}]"


def conversion(plan: str, sanitizer: str = "address") -> str:
    return f"templates/test_conversion.py::test_nothing_is_found[{plan}-{sanitizer}]"


def conversion_random(*firsts: int) -> tuple[str, ...]:
    return tuple(f"templates/test_conversion.py::test_random_conversions[{first}]" for first in firsts)


def fused_exact(plan: str) -> str:
    """The tests that run those plans without a sanitizer."""
    return f"test_fused_roles.py::test_it_is_exact[{plan}]"


def fence(plan: str) -> str:
    """The tests of fences on those plans, whose launches show every fence, wait and expectation."""
    return f"test_fences.py::test_nothing_is_left_out[{plan}]"
