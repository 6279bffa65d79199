"""The contract of every storage. A storage is tested by supplying the fixture `database`: an empty, open one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest

from qconv.errors import DatabaseError
from qconv.generator.families.simt import Simt
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import KEPT, LOST, OUTCOMES, Measurement, best_of, best_of_each, ranked
from qconv.tune_db.text import TextLayer, dump

Make = Callable[..., Measurement]
WHERE = ("NVIDIA H200", "sm_90a")


class DatabaseContract:
    def test_a_row_comes_back_as_it_was(self, database: Database, make: Make) -> None:
        full = make(0, protocol={"name": "events", "nested": {"list": [1, 2.5, None, "text", True]}})
        bare = make(1, registers=None, spill_bytes=None, smem_bytes=None, compile_ms=None, protocol=None)
        thirds = make(2, times_us=(1 / 3, 2 / 3, 4 / 3), median_us=2 / 3)
        for row in (full, bare, thirds):
            database.add(row)
        assert database.measurements() == [full, bare, thirds]

    @pytest.mark.parametrize("outcome", [word for word in OUTCOMES if word != "correct"])
    def test_a_failure_comes_back_as_it_was(self, database: Database, make: Make, outcome: str) -> None:
        failure = make(0, outcome=outcome, reason="line 3: 'quoted' \N{SNOWMAN}\n  line 4", compile_ms=3.5)
        database.add(failure)
        assert database.measurements() == [failure]

    def test_adding_again_replaces(self, database: Database, make: Make) -> None:
        database.add(make(0))
        database.add(make(1))
        slower = make(0, median_us=20.0, protocol=None)
        database.add(slower)
        assert database.measurements() == [slower, make(1)]
        failed = make(0, outcome="runtime")
        database.add(failed)
        assert database.measurements() == [failed, make(1)]

    @pytest.mark.parametrize("name", ["device", "target", "toolchain", "digest"])
    def test_each_part_of_the_key_makes_another_row(self, database: Database, make: Make, name: str) -> None:
        database.add(make(0))
        database.add(make(0, **{name: "another"}))
        assert len(database.measurements()) == 2

    def test_rows_are_selected(self, database: Database, make: Make, problem: Conv2d, other_problem: Conv2d) -> None:
        rows = [make(0), make(0, problem=other_problem), make(0, device="AMD"), make(0, target="gfx942")]
        for row in rows:
            database.add(row)
        assert database.measurements(problem=other_problem) == [rows[1]]
        assert database.measurements(device="AMD") == [rows[2]]
        assert database.measurements(target="gfx942") == [rows[3]]
        assert database.measurements(problem=problem, device="NVIDIA H200", target="sm_90a") == [rows[0]]
        assert database.measurements(device="nvidia h200") == []

    def test_best_is_the_fastest_correct_row(self, database: Database, make: Make, problem: Conv2d) -> None:
        assert database.best(problem, *WHERE) is None
        database.add(make(3, outcome="correctness"))
        assert database.best(problem, *WHERE) is None
        for number, median in ((0, 12.0), (1, 8.0), (2, 10.0)):
            database.add(make(number, median_us=median))
        database.add(make(4, median_us=1.0, device="faster"))
        assert database.best(problem, *WHERE) == make(1, median_us=8.0)
        database.add(make(1, median_us=30.0))
        assert database.best(problem, *WHERE) == make(2, median_us=10.0)

    def test_ties_within_noise_go_to_the_simpler_config(self, database: Database, make: Make, problem: Conv2d) -> None:
        simple = make(0).config
        assert isinstance(simple, Simt)
        large = replace(simple, tile_m=64)
        database.add(make(config=large, median_us=10.0))
        database.add(make(config=simple, median_us=10.09))
        best = database.best(problem, *WHERE)
        assert best is not None
        assert best.config == simple
        database.add(make(config=simple, median_us=10.2))
        best = database.best(problem, *WHERE)
        assert best is not None
        assert best.config == large

    def test_best_was_measured_in_full_if_any_was(self, database: Database, make: Make, problem: Conv2d) -> None:
        screened = make(0, median_us=1.0, protocol={"phase": "screened"})
        database.add(screened)
        assert database.best(problem, screened.device, screened.target) == screened
        for number, median_us in ((1, 20.0), (2, 10.0)):
            database.add(make(number, median_us=median_us))
        assert database.best(problem, screened.device, screened.target) == make(2, median_us=10.0)

    def test_best_per_problem(self, database: Database, make: Make, problem: Conv2d, other_problem: Conv2d) -> None:
        for p in (other_problem, problem):
            for number, median in ((0, 12.0), (1, 8.0)):
                database.add(make(number, problem=p, median_us=median))
        database.add(make(0, device="other", outcome="compile"))
        database.add(make(2, device="other", median_us=5.0))
        best = database.best_per_problem()
        assert [(m.problem, m.device, m.median_us) for m in best] == [
            (problem, "NVIDIA H200", 8.0),
            (problem, "other", 5.0),
            (other_problem, "NVIDIA H200", 8.0),
        ]
        assert database.best_per_problem("other") == [best[1]]

    def test_problems_are_those_with_a_correct_row(
        self, database: Database, make: Make, problem: Conv2d, other_problem: Conv2d
    ) -> None:
        database.add(make(0, problem=other_problem, outcome="timeout"))
        database.add(make(0))
        database.add(make(1))
        assert database.problems(*WHERE) == [problem]
        database.add(make(1, problem=other_problem))
        assert database.problems(*WHERE) == [problem, other_problem]
        assert database.problems("other", "sm_90a") == []

    def test_what_an_index_finds_is_what_a_scan_finds(
        self, database: Database, make: Make, problem: Conv2d, other_problem: Conv2d
    ) -> None:
        rng, rows = random.Random(0), []
        known = [replace(each, n=n) for each in (problem, other_problem) for n in (1, 2, 3, 8)]
        for number in range(160):
            given: dict[str, Any] = {"problem": rng.choice(known), "device": rng.choice((WHERE[0], "other"))}
            if rng.random() < 0.2:
                rows.append(make(number, outcome="timeout", **given))
                continue
            # Some problems were only screened; many medians are equal, and many are within noise of each other.
            full = given["problem"].n != 3 and rng.random() < 0.5
            protocol = {"phase": "alone" if full else "screened"}
            rows.append(
                make(number, median_us=rng.choice((10.0, 10.05, 10.09, 10.2, 30.0)), protocol=protocol, **given)
            )
        database.merge(TextLayer(dump(rows), "rows.json"))
        assert database.best_per_problem() == best_of_each(rows)
        assert database.best_per_problem("other") == best_of_each(m for m in rows if m.device == "other")
        for each in known:
            own = database.measurements(problem=each, device=WHERE[0], target=WHERE[1])
            assert list(database.ranked(each, *WHERE)) == ranked(own)
            assert database.best(each, *WHERE) == best_of(own)
            near = [other for _, other in database.near(each, *WHERE, 1.0)]
            assert near[0] == each
            assert set(near) == {other for other in known if other.c == each.c and 0.5 <= other.n / each.n <= 2}

    def test_ranked_takes_turns_with_writing(self, database: Database, make: Make, problem: Conv2d) -> None:
        for number in range(9):
            database.add(make(number, median_us=10.0 + number))
        found = []
        for m in database.ranked(problem, *WHERE):
            database.add(make(20, median_us=99.0))
            found.append(m.median_us)
        assert found == [*(10.0 + number for number in range(9)), 99.0]

    def test_a_digest_of_any_form_comes_back(self, database: Database, make: Make) -> None:
        digests = [
            "d",
            "4d195612a40833bd0143f8aca9c1ef70",
            "4D195612A40833BD0143F8ACA9C1EF70",
            "sixteen bytes ok",
            "ä" * 8,
        ]
        for number, digest in enumerate(digests):
            database.add(make(number, digest=digest))
        assert [m.digest for m in database.measurements()] == digests
        assert database.prune(digests_except=set(digests[1:])) == 1

    def test_merge_takes_what_is_new_and_what_is_newer(self, database: Database, make: Make) -> None:
        with Database.open("sqlite://") as other:
            later = make().created_at + timedelta(microseconds=1)
            mine = [make(0), make(1), make(2, created_at=later)]
            theirs = [make(1, median_us=9.0, created_at=later), make(2, median_us=9.0), make(3), make(4)]
            for row in mine:
                database.add(row)
            for row in theirs:
                other.add(row)
            assert database.merge(other) == (2, 1, 1)
            merged = [mine[0], theirs[0], mine[2], theirs[2], theirs[3]]
            assert database.measurements() == merged
            assert database.merge(other) == (0, 0, 4)
            assert database.measurements() == merged
            assert database.merge(database) == (0, 0, 5)

    def test_what_was_measured_in_sequence_is_apart(
        self, database: Database, make: Make, problem: Conv2d, other_problem: Conv2d
    ) -> None:
        """A row of the same config timed alone exists beside it, and queries of such rows ignore the one in
        sequence."""
        alone, kept = make(0, median_us=9.0), make(0, median_us=2.0, protocol={"phase": KEPT})
        lost = make(1, median_us=1.0, protocol={"phase": LOST}, problem=other_problem)
        for row in (alone, kept, lost):
            database.add(row)
        assert database.measurements() == [alone]
        assert database.best(problem, *WHERE) == alone
        assert list(database.ranked(problem, *WHERE)) == database.best_per_problem() == [alone]
        assert database.problems(*WHERE) == [problem]
        assert database.in_sequence() == [kept, lost]
        assert database.in_sequence(problem=problem, device=WHERE[0], target=WHERE[1]) == [kept]
        assert database.in_sequence(device="AMD") == []
        text = TextLayer(dump([alone, kept, lost]), "rows.json")
        assert (text.measurements(), text.in_sequence(problem=problem)) == ([alone], [kept])
        with Database.open("sqlite://") as other:
            assert other.merge(text) == (3, 0, 0)
            assert other.merge(database) == (0, 0, 3)
            assert (other.measurements(), set(other.in_sequence())) == ([alone], {kept, lost})
        again = make(0, median_us=3.0, protocol={"phase": LOST})
        database.add(again)
        assert database.in_sequence(problem=problem) == [again]
        assert database.measurements() == [alone]

    def test_prune(self, database: Database, make: Make, other_problem: Conv2d) -> None:
        rows = {
            "best": make(0, median_us=10.0),
            "close": make(1, median_us=14.0),
            "slow": make(2, median_us=16.0),
            "failed": make(3, outcome="compile"),
            "old": make(4, digest="d0", median_us=10.0),
            "elsewhere": make(5, device="other", median_us=99.0),
            "slow there": make(6, device="other", median_us=199.0),
            "alone": make(7, problem=other_problem, median_us=999.0),
        }
        for row in rows.values():
            database.add(row)

        def check(gone: set[str], device: str | None = None, **what: object) -> None:
            before = database.measurements()
            assert database.prune(dry_run=True, device=device, **what) == len(gone)  # type: ignore[arg-type]
            assert database.measurements() == before
            assert database.prune(device=device, **what) == len(gone)  # type: ignore[arg-type]
            kept = database.measurements()
            assert [name for name, row in rows.items() if row in before and row not in kept] == sorted(
                gone, key=list(rows).index
            )

        check({"slow there"}, device="other", slower_than=1.5)
        check(set(), slower_than=1.6)
        check({"slow", "failed"}, slower_than=1.5, failed=True)
        check({"old"}, digests_except={"d1", "d2"})
        check({"elsewhere"}, device="other", digests_except=set())
        assert database.measurements() == [rows["best"], rows["close"], rows["alone"]]

    def test_prune_keeps_the_best(self, database: Database, make: Make, problem: Conv2d) -> None:
        """Prune keeps rows that were not merely lucky in a few repeats; of a tie it keeps the simplest, which need not
        be the fastest."""
        rows = [
            make(0, median_us=9.0, protocol={"phase": "screened"}),
            make(1, median_us=10.0),
            make(2, median_us=10.05),
            make(3, median_us=10.2),
            make(4, median_us=16.0, protocol={"phase": "screened"}),
        ]
        for row in rows:
            database.add(row)
        best = database.best(problem, *WHERE)
        assert database.prune(slower_than=1.0) == 2
        assert database.measurements() == rows[:3]
        assert database.best(problem, *WHERE) == best

    def test_prune_of_nothing_is_refused(self, database: Database) -> None:
        refused: tuple[dict[str, Any], ...] = ({}, {"slower_than": 0.5}, {"slower_than": float("nan")})
        for what in refused:
            with pytest.raises(ValueError, match=r"prune of nothing|finite factor"):
                database.prune(**what)

    def test_threads_share_one(self, database: Database, make: Make, problem: Conv2d) -> None:
        errors: list[BaseException] = []

        def work(first: int) -> None:
            try:
                for number in range(first, first + 15):
                    database.add(make(number))
                    assert database.best(problem, *WHERE) is not None
                    database.add(make(200))
            except BaseException as error:
                errors.append(error)

        threads = [Thread(target=work, args=(first,)) for first in (0, 15, 30, 45)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(database.measurements()) == 61

    def test_closed_is_closed(self, database: Database, make: Make) -> None:
        with database:
            pass
        with pytest.raises(DatabaseError, match="closed"):
            database.add(make())
        database.close()
