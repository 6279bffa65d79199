"""Plans with altered views: an argument that the family does not have, or a launch that may overlap."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from qconv.generator import Plan
from qconv.generator.plan import Field


def altered(plan: Plan, **views: Any) -> Plan:
    """Return the plan with these views instead of those that it computes from its fields."""
    kind = type(plan)
    made: Plan = type(f"Altered{kind.__name__}", (kind,), views)(
        **{f.name: getattr(plan, f.name) for f in fields(plan)}
    )
    return made


def with_scratch(plan: Plan, elements: int) -> Plan:
    """Return the plan with a pointer to scratch memory, after its other pointers."""
    count = sum(field.is_pointer for field in plan.fields)
    field = Field("counters", "int*", "scratch", "one a tile", None, elements)
    return altered(plan, fields=(*plan.fields[:count], field, *plan.fields[count:]))
