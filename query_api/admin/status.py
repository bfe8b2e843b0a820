"""``GET /admin/status``: how far data is stored and traces are settled, dead letters, what waits, prices,
instrumentations, versions. A missing part says why."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from pydantic import Field

from common.clickhouse.dead_letters import DeadLetterSelection
from common.clickhouse.store import read_version
from common.clickhouse.waiting_events import read_waiting
from common.errors import ServiceError
from common.fair_share import in_thread
from common.prices.file import InvalidPrices, prices_of
from common.stored_position import ALL_PROJECTS
from common.times import format_us
from query_api.admin.dead_letters import table_of
from query_api.coverage.coverage import CoverageParameters, CoverageResponse, read_coverage
from query_api.freshness.follow import look_up_stored
from query_api.freshness.settled import read_settling_progress
from query_api.freshness.status import Freshness, PartitionFreshness, read_freshness
from query_api.request.context import ApiContext, database_of
from query_api.request.json_body import ApiModel, Strict, json_response
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans

Part = TypeVar("Part")


class Missing(NamedTuple):
    """A part of the response that is not available."""

    reason: str


class OpenDeadLettersCount(ApiModel):
    """How many dead letters are neither replayed nor dropped."""

    open: int | None = Field(None, description="The number of open dead letters of all projects.")
    at: str | None = Field(None, description="The time of that number.")
    reason: str | None = Field(None, description="Why the number is absent.")


class WaitingOfProject(ApiModel):
    """What is stored of one project about spans that are not stored."""

    project_id: UUID = Field(description="The project.")
    events: int = Field(description="The number of log records that name a span, without evaluations.")
    evaluations: int = Field(description="The number of evaluations that name a span or a response.")
    annotations: int = Field(
        description="The number of judgements of annotations: one for each span that one links to."
    )
    oldest: str = Field(description="The time of the oldest of them.")


class WaitingStatus(ApiModel):
    """What waits for its span. It is shown once the span is there, and goes with retention."""

    projects: list[WaitingOfProject] | None = Field(None, description="By project, those with the most first.")
    reason: str | None = Field(None, description="Why the list is absent.")


class PricesStatus(ApiModel):
    """The price table from which costs are computed that nobody reported."""

    as_of: str | None = Field(
        None, description="The day of the prices in the file that the settings of this process name, else built in."
    )
    warning: str | None = Field(None, description="What to do if the prices are older than 90 days.")
    reason: str | None = Field(None, description="Why the day is absent.")


class SettlingStatus(ApiModel):
    """How far traces are settled, for the feed by `settled_at`."""

    through: str | None = Field(
        None, description="The traces of everything that was stored by this time are settled, if they are complete."
    )
    behind_s: float | None = Field(
        None, description="How many seconds later than after `CLEARSPAN_SETTLING_S` complete traces settle now."
    )
    incomplete_traces: int | None = Field(
        None,
        description="How many traces were incomplete and have not been waited for `CLEARSPAN_SETTLING_MAX_S`. One that"
        " changes meanwhile may count again.",
    )
    is_running: bool | None = Field(None, description="Whether a process settles traces now.")
    reason: str | None = Field(None, description="Why the other members are absent.")


class CoverageStatus(ApiModel):
    """What the instrumentations of one project send."""

    last_week: CoverageResponse | None = Field(
        None, description="What `GET /status/instrumentations` returns with a key of the project."
    )
    reason: str | None = Field(None, description="Why it is absent.")


class StatusParameters(Strict):
    """What the status is about, besides the installation."""

    project: UUID | None = Field(None, description="The project whose instrumentations are shown; default none.")


class Versions(ApiModel):
    """The versions of what this installation runs."""

    clearspan: str = Field(description="The version of Clearspan that answers.")
    clickhouse: str | None = Field(None, description="The version of the engine that stores the spans.")
    postgres: str | None = Field(None, description="The version of Postgres.")
    api_started_at: str | None = Field(None, description="The time at which the process that answers started.")
    reasons: dict[str, str] | None = Field(None, description="Why a version is absent, by its name.")


class Status(ApiModel):
    """The status of the installation."""

    data_through: str | None = Field(
        None, description="Everything that Kafka had accepted by this time is queryable, in all partitions."
    )
    asked_at: str | None = Field(None, description="The time at which Kafka's end offsets were read.")
    reason: str | None = Field(None, description="Why `data_through` is absent or older than it could be.")
    behind_records: int | None = Field(
        None, description="The number of records in Kafka that are not queryable yet. Absent if it is unknown."
    )
    partitions: list[PartitionFreshness] = Field(
        description="Every partition, ordered by topic and number. `last_stored` is about all projects."
    )
    dead_letters: OpenDeadLettersCount = Field(description="The open dead letters.")
    waiting: WaitingStatus = Field(description="What came before the span that it is about.")
    settling: SettlingStatus = Field(description="How far traces are settled.")
    prices: PricesStatus = Field(description="The prices of models.")
    instrumentations: CoverageStatus | None = Field(
        None, description="What the instrumentations of the requested project send. Absent if none is requested."
    )
    versions: Versions = Field(description="The versions of what runs.")


async def get_status(request: Request) -> Response:
    """Return how far the data of all projects is stored, the number of open dead letters, what is stored about spans
    that are not, the age of prices, versions.

    With `project`, also what its instrumentations send. A part that is not available is left out, with the reason.
    """
    context = request.context
    timeout_s = context.limits.status_part_s
    stored, (clickhouse, postgres), (prices, instrumentations) = await asyncio.gather(
        asyncio.gather(
            _part(_freshness(context), timeout_s),
            _part(_count_dead_letters(context), timeout_s),
            _part(_waiting(context), timeout_s),
            _settling(context, timeout_s),
        ),
        asyncio.gather(
            _part(read_version(context.store, deadline_s=timeout_s), timeout_s),
            _part(_postgres_version(context), timeout_s),
        ),
        asyncio.gather(
            _part(_prices(context), timeout_s),
            _part(_instrumentations(context, request.query), timeout_s),
        ),
    )
    freshness, dead_letters, waiting, settling = stored
    if isinstance(freshness, Missing):
        freshness = Freshness(count=0, reason=freshness.reason, partitions=[])
    if isinstance(prices, Missing):
        prices = PricesStatus(reason=prices.reason)
    if isinstance(instrumentations, Missing):
        instrumentations = CoverageStatus(reason=instrumentations.reason)
    if isinstance(dead_letters, Missing):
        dead_letters = OpenDeadLettersCount(reason=dead_letters.reason)
    if isinstance(waiting, Missing):
        waiting = WaitingStatus(reason=waiting.reason)
    return json_response(
        Status(
            data_through=freshness.data_through,
            asked_at=freshness.asked_at,
            reason=freshness.reason,
            behind_records=_behind_records(freshness),
            partitions=freshness.partitions,
            dead_letters=dead_letters,
            waiting=waiting,
            settling=settling,
            prices=prices,
            instrumentations=instrumentations,
            versions=_versions(context, {"clickhouse": clickhouse, "postgres": postgres}),
        )
    )


async def _part(running: Coroutine[Any, Any, Part], timeout_s: float) -> Part | Missing:
    try:
        async with asyncio.timeout(timeout_s):
            return await running
    except ServiceError as error:
        return Missing(error.public_message)
    except TimeoutError:
        return Missing(f"No answer within {timeout_s:g} s.")


async def _freshness(context: ApiContext) -> Freshness:
    await look_up_stored(context, ALL_PROJECTS)
    return await read_freshness(context, mine=context.stored.through(ALL_PROJECTS), sees_all=True)


async def _count_dead_letters(context: ApiContext) -> OpenDeadLettersCount:
    count = await table_of(context).count(DeadLetterSelection())
    return OpenDeadLettersCount(open=count, at=format_us(context.clock.now_ns() // 1_000))


async def _waiting(context: ApiContext) -> WaitingStatus:
    waiting = await read_waiting(context.store, deadline_s=context.limits.status_part_s)
    return WaitingStatus(
        projects=[
            WaitingOfProject(
                project_id=each.project_id,
                events=each.events_count,
                evaluations=each.evaluations_count,
                annotations=each.verdicts_count,
                oldest=format_us(each.oldest_us),
            )
            for each in waiting
        ]
    )


async def _settling(context: ApiContext, timeout_s: float) -> SettlingStatus:
    progress = await _part(read_settling_progress(database_of(context)), timeout_s)
    if isinstance(progress, Missing):
        return SettlingStatus(reason=progress.reason)
    through_us = progress.through_us
    return SettlingStatus(
        through=None if through_us is None else format_us(through_us),
        behind_s=round(progress.behind_s(context.settings.settling_s), 3),
        incomplete_traces=progress.incomplete_count,
        is_running=progress.is_running,
    )


async def _prices(context: ApiContext) -> PricesStatus:
    try:
        table = await in_thread(prices_of, context.settings)
    except InvalidPrices as error:
        return PricesStatus(reason=str(error))
    if table.as_of is None:
        return PricesStatus(reason="The file of prices has no line `# as of DATE`.")
    today = datetime.fromtimestamp(context.clock.now_ns() / 1e9, UTC).date()
    return PricesStatus(as_of=table.as_of.isoformat(), warning=table.age_warning(today))


async def _instrumentations(context: ApiContext, parameters: StatusParameters) -> CoverageStatus | None:
    if parameters.project is None:
        return None
    budget_s = context.limits.status_part_s
    spans = ProjectSpans(context.store, parameters.project, clock=context.clock, budget_s=budget_s)
    now_us = context.clock.now_ns() // 1_000
    found = await read_coverage(spans, CoverageParameters(), now_us=now_us, limits=context.limits)
    return CoverageStatus(last_week=found)


async def _postgres_version(context: ApiContext) -> str:
    row = await database_of(context).fetch_one("SHOW server_version")
    assert row is not None  # noqa: S101 - narrows the type: the statement always returns a row
    return str(row["server_version"])


def _behind_records(freshness: Freshness) -> int | None:
    """Return the sum over all partitions; ``None`` if they are not known."""
    counts = [partition.behind_records for partition in freshness.partitions if partition.behind_records is not None]
    return sum(counts) if counts else None


def _versions(context: ApiContext, parts: Mapping[str, str | Missing]) -> Versions:
    return Versions(
        clearspan=version("clearspan"),
        api_started_at=None if context.started_us is None else format_us(context.started_us),
        reasons={name: part.reason for name, part in parts.items() if isinstance(part, Missing)} or None,
        **{name: part for name, part in parts.items() if not isinstance(part, Missing)},
    )
