"""Which projects settle by themselves, and how much of a run each may use (contract §2, ADR 0052)."""

from __future__ import annotations

from uuid import UUID

from jobs.settling.frontiers import OWN_MAX, Frontier, Frontiers, allowance_of, own_json, own_of_json
from jobs.settling.windows import Range

FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))


def test_projects_that_used_more_than_a_sixteenth_are_large():
    allowance = allowance_of(1_600)
    allowance.use(FIRST, rows=101)
    allowance.use(SECOND, rows=100)
    allowance.use(THIRD, rows=1, versions=8_000)
    assert allowance.large_users() == [THIRD, FIRST]


def test_part_of_an_allowance_is_counted_in_the_whole():
    allowance = allowance_of(100)
    part = allowance.part(2)
    assert (part.rows, part.versions) == (50, 500)
    part.use(FIRST, rows=50, versions=20)
    allowance.count_part(part)
    assert part.is_used_up
    assert not allowance.is_used_up
    assert (allowance.part(1).rows, allowance.part(5).rows, allowance.part(1).versions) == (50, 10, 980)


def test_large_trace_uses_up_what_may_be_judged():
    allowance = allowance_of(100)
    allowance.use(FIRST, rows=1, versions=1_000)
    assert allowance.is_used_up
    assert allowance.part(3).rows == 33


def test_project_that_falls_behind_starts_where_all_are():
    frontiers = Frontiers(Frontier(7, {"a": Range(3, 9)})).with_large([FIRST, FIRST])
    assert frontiers.own == {FIRST: frontiers.common}
    frontiers = frontiers._replace(common=Frontier(9)).with_large([FIRST, SECOND])
    assert frontiers.own == {FIRST: Frontier(7, {"a": Range(3, 9)}), SECOND: Frontier(9)}
    assert (frontiers.oldest_run, frontiers.of(THIRD).run) == (7, 9)
    assert frontiers.behind(8) == [FIRST]


def test_project_that_has_caught_up_joins_the_others():
    common = Frontier(9, {"a": Range(3, 9)})
    frontiers = Frontiers(common, {FIRST: Frontier(9), SECOND: Frontier(9, {"a": Range(3, 9)})})
    assert frontiers.joined().own == {FIRST: Frontier(9)}


def test_few_projects_have_frontiers_of_their_own():
    projects = [UUID(int=number) for number in range(OWN_MAX + 5)]
    frontiers = Frontiers(Frontier(1)).with_large(projects[:10]).with_large(projects)
    assert [*sorted(frontiers.own)] == projects[:OWN_MAX]


def test_frontiers_are_kept_as_json():
    own = {FIRST: Frontier(9), SECOND: Frontier(3, {"a": Range(3, 9)})}
    assert own_of_json(own_json(own)) == own
