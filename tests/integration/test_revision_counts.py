"""``GET /applications/revisions/{id}?include_counts=true``: usage and durations of the spans of a revision, and which
spans these are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from common.clickhouse.store import ColumnStore
from common.errors import DeadlineExceeded, ServiceError, Unavailable
from common.postgres.pool import Database
from common.span import Event, Span, StatusCode
from common.times import format_us
from tests.fakes.clock import ManualClock
from tests.fakes.faulty_store import Fault, FaultyStore
from tests.support.history import HistoryClient, clients_of
from tests.support.span_corpus import START_NS, store_record

START_US = START_NS // 1000
AROUND = {"oldest": format_us(START_US), "newest": format_us(START_US + 1_000_000)}
UNKNOWN_ID = UUID(int=5)


@dataclass
class Branch:
    """A variant with three revisions, and the stored spans that refer to them."""

    client: HistoryClient
    store: ColumnStore
    application: Any
    variant: Any
    revisions: Sequence[Any]
    records: int = field(default=0)

    async def add(self, *spans: Span, project_id: UUID | None = None) -> None:
        """Store spans as one record."""
        self.records += 1
        await store_record(
            self.store,
            spans,
            offset=self.records,
            record_ms=self.records,
            project_id=project_id or self.client.project_id,
        )

    async def counts(self, version: int, **window: str) -> Any:
        """Return the member ``counts`` of a revision, by default for the window around the spans."""
        return (await self.get(version, window or AROUND))["counts"]

    async def get(self, version: int, query: Mapping[str, str], *, status: int = 200) -> Any:
        """Return the whole response."""
        path = f"/applications/revisions/{self.revisions[version]['id']}"
        return await self.client.call("GET", path, params={"include_counts": "true", **query}, status=status)

    async def listed(self, counts: Any) -> int:
        """Return how many spans ``/spans/query`` finds with the filter of the counts."""
        body = {"filtering": counts["filtering"], "windowing": counts["windowing"]}
        return int((await self.client.post("/spans/query", body))["count"])


@pytest.fixture
async def branch(shared_database: Database, store: ColumnStore) -> AsyncIterator[Branch]:
    async with clients_of(shared_database, store=store) as [client]:
        application, variant, revisions = await client.branch(commits=3)
        yield Branch(client, store, application, variant, revisions)


def span(
    number: int,
    references: Sequence[dict[str, Any]],
    *,
    trace: int = 1,
    after_ms: int = 0,
    took_ms: float = 10,
    status: StatusCode = StatusCode.STATUS_CODE_UNSET,
    events: tuple[Event, ...] = (),
    **attributes: Any,
) -> Span:
    start_ns = START_NS + after_ms * 1_000_000
    return Span(
        trace_id=bytes([trace]) * 16,
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None,
        name="s",
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + int(took_ms * 1_000_000),
        status_code=status,
        status_message=None,
        attributes={name.replace("_", "."): value for name, value in attributes.items()},
        events=events,
        references=list(references),
    )


def reference(layer: str, **identity: str) -> dict[str, Any]:
    return {**identity, "attributes": {"key": layer}}


def by_id(revision: Any) -> list[dict[str, Any]]:
    return [reference("application_revision", id=revision["id"])]


async def test_calls_errors_tokens_costs_and_durations_are_those_of_its_spans(branch: Branch):
    second = by_id(branch.revisions[1])
    usage: Any = {
        "ag_metrics_tokens_incremental": {"prompt": 10, "completion": 5, "total": 15},
        "ag_metrics_costs_incremental": {"prompt": 0.25, "completion": 0.5, "total": 0.75},
    }
    failed = (Event("exception", START_NS, {}),)
    await branch.add(
        span(1, second, took_ms=100, ag_type_span="workflow"),
        span(2, second, after_ms=20, took_ms=40, ag_type_span="chat", **usage),
        span(3, second, after_ms=70, took_ms=50, ag_type_span="llm", events=failed, **usage),
        span(4, second, trace=2, took_ms=20, status=StatusCode.STATUS_CODE_ERROR),
        span(5, by_id(branch.revisions[2]), trace=3, **usage),
        span(6, [], trace=3, **usage),
    )

    counts = await branch.counts(1)

    assert {name: counts[name] for name in ("spans", "traces", "calls", "errors")} == {
        "spans": 4,
        "traces": 2,
        "calls": 2,
        "errors": 2,
    }
    assert counts["tokens"] == {"prompt": 20, "completion": 10, "total": 30}
    assert counts["costs"] == {"prompt": 0.5, "completion": 1, "total": 1.5}
    assert counts["duration_ms"] == pytest.approx(
        {"p50": 70, "p90": 110, "p95": 115, "p99": 119}
    )  # of runs of 120 and 20 ms
    assert counts["windowing"] == AROUND


async def test_usage_that_a_span_repeats_of_its_children_counts_once(branch: Branch):
    first, tokens = by_id(branch.revisions[0]), "ai_usage_promptTokens"
    whole: Any = {tokens: 30}
    part: Any = {tokens: 15}
    await branch.add(
        span(1, first, **whole),
        *(span(number, first, **part)._replace(parent_id=(1).to_bytes(8, "big") * 2) for number in (2, 3)),
        span(4, first, trace=2, **whole),
        *(span(number, [], trace=2, **part)._replace(parent_id=(4).to_bytes(8, "big") * 2) for number in (5, 6)),
    )

    assert (await branch.counts(0))["tokens"]["total"] == 60


async def test_spans_refer_by_id_slug_or_variant_and_version(branch: Branch):
    revision, variant = branch.revisions[1], branch.variant
    others = branch.revisions[2]
    version = reference("application_revision", version="1")
    its = [
        by_id(revision),
        [{"id": revision["id"], "attributes": {}}],
        [reference("application_revision", slug=revision["slug"])],
        [reference("application_variant", id=variant["id"]), version],
        [version, reference("application_variant", slug=variant["slug"]), reference("application", slug="app")],
    ]
    not_its = [
        by_id(others),
        [reference("application_revision", slug=others["slug"])],
        [reference("evaluator_revision", slug=revision["slug"])],
        [version],
        [version, reference("application", slug="app")],
        [version, reference("application_variant", slug="another")],
        [reference("application_variant", id=variant["id"]), reference("application_revision", version="2")],
        [reference("application_variant", id=variant["id"], version="1")],
    ]
    await branch.add(*(span(number, each) for number, each in enumerate([*its, *not_its], start=1)))

    counts = await branch.counts(1)

    assert counts["spans"] == len(its)
    assert await branch.listed(counts) == len(its)


async def test_only_visible_spans_count(branch: Branch):
    first = by_id(branch.revisions[0])
    await branch.add(span(1, first), span(2, first), span(3, first, trace=2))
    await branch.add(span(1, first))
    await branch.add(span(2, []))
    await branch.client.call("DELETE", f"/traces/{'02' * 16}", status=202)

    counts = await branch.counts(0)

    assert counts["spans"] == 1
    assert await branch.listed(counts) == 1


async def test_window_includes_oldest_and_excludes_newest(branch: Branch):
    first = by_id(branch.revisions[0])
    await branch.add(*(span(number, first, after_ms=number) for number in (1, 2, 3)))

    bounds = {"oldest": format_us(START_US + 1_000), "newest": format_us(START_US + 3_000)}
    counts = await branch.counts(0, **bounds)

    assert counts["windowing"] == bounds
    assert counts["spans"] == 2 == await branch.listed(counts)


async def test_default_window_is_the_last_thirty_days(shared_database: Database, store: ColumnStore):
    clock = ManualClock()
    async with clients_of(shared_database, store=store, clock=clock) as [client]:
        _, _, [revision] = await client.branch(commits=1)
        path = f"/applications/revisions/{revision['id']}"

        counts = (await client.call("GET", path, params={"include_counts": "true"}))["counts"]

    day_us = 86_400_000_000
    midnight_us = (clock.now_ns() // 1000 // day_us + 1) * day_us
    assert counts["windowing"] == {"oldest": format_us(midnight_us - 30 * day_us), "newest": format_us(midnight_us)}


async def test_a_revision_without_spans_has_zeros_and_no_durations(branch: Branch):
    counts = await branch.counts(0)

    nothing = {"prompt": 0, "completion": 0, "total": 0}
    del counts["filtering"]
    assert counts == {
        "windowing": AROUND, "spans": 0, "traces": 0, "calls": 0, "errors": 0, "tokens": nothing, "costs": nothing,
    }  # fmt: skip


async def test_parts_are_absent_if_only_the_total_of_costs_is_known(branch: Branch):
    await branch.add(span(1, by_id(branch.revisions[0]), ag_metrics_costs_incremental_total=0.5))

    assert (await branch.counts(0))["costs"] == {"total": 0.5}


async def test_spans_of_another_project_do_not_count(branch: Branch):
    await branch.add(span(1, by_id(branch.revisions[0])), project_id=UNKNOWN_ID)

    assert (await branch.counts(0))["spans"] == 0


async def test_unknown_revision_is_count_0_without_a_statement(shared_database: Database):
    async with clients_of(shared_database) as [client]:
        response = await client.call("GET", f"/applications/revisions/{UNKNOWN_ID}", params={"include_counts": "true"})

    assert response == {"count": 0}


async def test_revision_without_counts_needs_no_statement(shared_database: Database):
    async with clients_of(shared_database) as [client]:
        _, _, [revision] = await client.branch(commits=1)

        response = await client.call("GET", f"/applications/revisions/{revision['id']}")

    assert response["count"] == 1
    assert "counts" not in response


@pytest.mark.parametrize(("error", "status"), [(Unavailable("away"), 503), (DeadlineExceeded("late"), 504)])
async def test_failed_engine_is_an_error_and_not_zeros(
    shared_database: Database, store: ColumnStore, error: ServiceError, status: int
):
    faulty = FaultyStore(store)
    async with clients_of(shared_database, store=faulty) as [client]:
        _, _, [revision] = await client.branch(commits=1)
        path = f"/applications/revisions/{revision['id']}"
        faulty.select_faults.append(Fault(error))

        response = await client.call("GET", path, params={"include_counts": "true"}, status=status)

        assert list(response) == ["detail"]
        assert (await client.call("GET", path))["count"] == 1


@pytest.mark.parametrize("query", [{"include_counts": "perhaps"}, {"oldest": "yesterday"}, {"newest": "12"}])
async def test_invalid_request_is_422(branch: Branch, query: dict[str, str]):
    response = await branch.get(0, query, status=422)

    assert response["detail"][0]["loc"][0] == "query"


async def test_counts_are_one_statement(shared_database: Database, store: ColumnStore):
    counting = FaultyStore(store)
    counting.select_faults.extend([None, None])
    async with clients_of(shared_database, store=counting) as [client]:
        _, _, [revision] = await client.branch(commits=1)
        await client.call("GET", f"/applications/revisions/{revision['id']}", params={"include_counts": "true"})

    assert len(counting.select_faults) == 1
