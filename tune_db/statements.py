"""The SQL statements of the queries, each built once.

The statements of a lookup are rendered at import, because every engine would compile them again in a fresh process.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    TextClause,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.orm import aliased

from qconv.tune_db.measurement import NOISE
from qconv.tune_db.models import ConfigRow, MeasurementRow, PlaceRow, ProblemRow, ProtocolRow, SequenceRow, ToolchainRow
from qconv.tune_db.nearness import COARSE

M = MeasurementRow
Rows = type[MeasurementRow] | type[SequenceRow]
# Spelled as in the index, so that the database recognizes that the index applies.
CORRECT: ColumnElement[bool] = literal_column("outcome = 'correct'")
# Comparing doubles and comparing integers may differ in the last digits.
SLACK = 1e-9


def rows(of: Rows = M) -> Select[Any]:
    """Select all columns of a measurement. A number that refers to no row gives null, which the row's check rejects."""
    texts = (
        ProblemRow.key.label("problem"),
        ConfigRow.json.label("config"),
        PlaceRow.device,
        PlaceRow.target,
        ToolchainRow.name.label("toolchain"),
        ProtocolRow.json.label("protocol"),
    )
    return (
        select(*of.__table__.columns, *texts)
        .select_from(of)
        .outerjoin(ProblemRow, of.problem_id == ProblemRow.id)
        .outerjoin(ConfigRow, of.config_id == ConfigRow.id)
        .outerjoin(PlaceRow, of.place_id == PlaceRow.id)
        .outerjoin(ToolchainRow, of.toolchain_id == ToolchainRow.id)
        .outerjoin(ProtocolRow, of.protocol_id == ProtocolRow.id)
    )


Conditions = list[ColumnElement[bool]]


def among(problem: str | None = None, device: str | None = None, target: str | None = None, of: Rows = M) -> Conditions:
    """Build the conditions on a measurement's problem, device and target. Unknown names match no row."""
    conditions: Conditions = []
    if problem is not None:
        conditions.append(of.problem_id == select(ProblemRow.id).where(ProblemRow.key == problem).scalar_subquery())
    places = [PlaceRow.device == device] if device is not None else []
    places += [PlaceRow.target == target] if target is not None else []
    if places:
        conditions.append(of.place_id.in_(select(PlaceRow.id).where(*places)))
    return conditions


def _leading() -> Select[Any]:
    """Select the correct rows of a problem, device and target in the order of the index: those timed in full first,
    fastest first."""
    problem = select(ProblemRow.id).where(ProblemRow.key == bindparam("problem"))
    place = select(PlaceRow.id).where(PlaceRow.device == bindparam("device"), PlaceRow.target == bindparam("target"))
    return (
        rows()
        .where(M.problem_id == problem.scalar_subquery(), M.place_id == place.scalar_subquery(), CORRECT)
        .order_by(M.screened, M.median_us, M.id)
    )


def _near(extents: int) -> Select[Any]:
    """Select the problems of a group with a correct row for a device and target, at most `within` away in their first
    extents."""
    columns = ProblemRow.__table__.columns
    coarse = [columns[f"coarse_{at + 1}"] for at in range(extents)]
    far = [func.abs(column - bindparam(column.name)) for column in coarse]
    place = select(PlaceRow.id).where(PlaceRow.device == bindparam("device"), PlaceRow.target == bindparam("target"))
    known = exists().where(M.problem_id == ProblemRow.id, M.place_id == place.scalar_subquery(), CORRECT)
    return select(*(columns[name] for name in ("id", "key", "extents", "kinds"))).where(
        ProblemRow.shape_group == bindparam("shape_group"),
        coarse[0].between(bindparam("least"), bindparam("most")),
        sum(far[1:], far[0]) <= bindparam("within"),
        known,
    )


def _rendered(statement: Select[Any]) -> TextClause:
    return text(str(statement))


LEADING = _rendered(_leading())
FEW_LEADING = _rendered(_leading().limit(bindparam("few")))
NEAR = tuple(_rendered(_near(extents)) for extents in range(1, COARSE + 1))


def best_candidates(device: str | None) -> Select[Any]:
    """Select the correct rows among which each problem's best is: the fastest and all within noise of it, from the rows
    timed in full if there are any."""
    first = _fastest(device)
    fuller = aliased(M)
    timed_in_full = exists().where(
        fuller.problem_id == first.c.problem_id,
        fuller.place_id == first.c.place_id,
        fuller.screened == 0,
        fuller.outcome == "correct",
    )
    return (
        rows()
        .join(
            first,
            and_(
                M.problem_id == first.c.problem_id,
                M.place_id == first.c.place_id,
                M.screened == first.c.screened,
                # abs(): also select rows with a negative time, so that the check rejects them.
                M.median_us <= first.c.median_us + func.abs(first.c.median_us) * (NOISE + SLACK),
            ),
        )
        .where(M.outcome == "correct", or_(first.c.screened == 0, ~timed_in_full))
    )


def _fastest(device: str | None) -> Subquery:
    groups = (M.problem_id, M.place_id, M.screened)
    fastest = select(*groups, func.min(M.median_us).label("median_us"))
    return fastest.where(CORRECT, *among(device=device)).group_by(*groups).subquery()


def slower_than(factor: float) -> ColumnElement[bool]:
    """Select rows slower than `factor` times the best by rank: the fastest of the rows timed in full, where there are
    any. Rows within NOISE of the best, of which lookup chooses the simplest, are never selected."""
    other = aliased(M)
    first = (
        select(other.median_us)
        .where(other.problem_id == M.problem_id, other.place_id == M.place_id, other.outcome == "correct")
        .order_by(other.screened, other.median_us)
        .limit(1)
        .scalar_subquery()
    )
    return M.median_us > max(factor, 1 + NOISE) * first
