"""Requests and responses of the routes of subscriptions."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final
from uuid import UUID

from pydantic import ConfigDict, Field, field_validator

from query_api.delivery.targets.models import TargetIn
from query_api.filter.parse import FilteringModel, check_groups
from query_api.registry.kinds import Slug, storable_json
from query_api.request.json_body import ApiModel, Strict
from query_api.request.references import ReferenceIn, Text

NAME_LENGTH_MAX: Final = 200
POSITION_LENGTH_MAX: Final = 131_072
_FROM: Final = (
    "`now`, `beginning`, a `created_at` (of settled traces, a time of settling) as ISO 8601 or relative to now such as"
    " `-15m`, or the `position` of a subscription of this project to the same."
)


class State(StrEnum):
    """What a subscription does."""

    ACTIVE = "active"
    RETRYING = "retrying"
    PAUSED = "paused"


class FeedKind(StrEnum):
    """What a subscription delivers."""

    SPANS = "spans"
    SETTLED_TRACES = "settled_traces"


class SpanSelection(Strict):
    """Which spans a subscription or an alert is about: a filter or a saved query; all spans by default."""

    filtering_at: ClassVar[str] = "subscription.filtering"

    filtering: FilteringModel | None = Field(None, description="The filter, as in /spans/query.")
    query_ref: ReferenceIn | None = Field(None, description="A saved query; its newest revision counts.")
    query_revision_ref: ReferenceIn | None = Field(None, description="A revision of a saved query.")

    @field_validator("filtering", mode="before")
    @classmethod
    def _can_be_stored(cls, filtering: Any) -> Any:
        check_groups(filtering, path=cls.filtering_at)
        return storable_json(filtering) if isinstance(filtering, dict) else filtering

    def selecting(self) -> list[str]:
        """Return the names of the members that say which spans."""
        names = ("filtering", "query_ref", "query_revision_ref")
        return [name for name in names if getattr(self, name) is not None]


class SubscriptionCreate(SpanSelection):
    """The subscription to create."""

    slug: Slug = Field(max_length=NAME_LENGTH_MAX, description="Unique in the project. Never changes.")
    name: Text | None = Field(None, max_length=NAME_LENGTH_MAX, description="A name for people.")
    on: FeedKind = Field(
        FeedKind.SPANS,
        description="What is delivered: `spans` as they are stored, or `settled_traces`, each whole, once for each time"
        " it settles. Never changes. The filter chooses traces that have a matching span.",
    )
    target: TargetIn = Field(description="Where it is delivered.")
    from_: Annotated[str, Field(max_length=POSITION_LENGTH_MAX)] | None = Field(
        None, alias="from", description=f"Where delivery begins: {_FROM} Default: `now`."
    )


class CreateSubscription(Strict):
    """Creates a subscription."""

    subscription: SubscriptionCreate

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "subscription": {
                        "slug": "failed-calls",
                        "filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]},
                        "target": {"kind": "webhook", "url": "https://hooks.example.org/spans"},
                    }
                }
            ]
        }
    )


class SubscriptionEdit(SpanSelection):
    """The members to change; absent members keep their values."""

    id: UUID | None = Field(None, description="The same id as in the path.")
    name: Text | None = Field(None, max_length=NAME_LENGTH_MAX, description="A name for people.")
    target: TargetIn | None = Field(
        None, description="Where spans are delivered. A target of the same kind keeps its secret unless one is given."
    )


class EditSubscription(Strict):
    """Changes a subscription."""

    subscription: SubscriptionEdit


class SubscriptionFilter(Strict):
    """Which subscriptions. Every member that is given must match."""

    slug: str | None = Field(None, description="The slug.")
    status: State | None = Field(None, description="What the subscription does.")
    kind: str | None = Field(None, description="The kind of its target, such as `webhook`.")


class QuerySubscriptions(Strict):
    """Finds subscriptions; all of them by default."""

    subscription: SubscriptionFilter | None = None


class ReplaySubscription(Strict):
    """Where to deliver again from."""

    from_: Annotated[str, Field(max_length=POSITION_LENGTH_MAX)] = Field(
        alias="from", description=f"Where delivery begins again: {_FROM}"
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": "2026-05-01T12:00:00Z"}]})


class TargetOut(ApiModel):
    """A target, without what must not be shown again."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field(description="The kind of the target.")
    secret: str | None = Field(None, description="Only in the response that creates it: the secret that was made.")


class PendingBatch(ApiModel):
    """The batch that is being delivered."""

    batch_id: str = Field(description="The id of the batch; the same on every try.")
    spans: int = Field(description="Spans in the batch when it was read.")
    attempts: int = Field(description="Tries that have failed.")
    failing_since: datetime | None = Field(None, description="The time of the first failure.")
    retry_at: datetime | None = Field(None, description="The time of the next try.")


class Delivered(ApiModel):
    """What was delivered and acknowledged since the subscription was created."""

    spans: int = Field(description="Spans; one that was delivered again after a replay counts again.")
    batches: int = Field(description="Batches.")
    at: datetime | None = Field(None, description="The time of the last acknowledgement.")


class RejectedOut(ApiModel):
    """Spans that are not delivered again: the target acknowledged and rejected them, or their settled trace is too
    large.
    """

    spans: int = Field(description="Spans.")
    reason: str = Field(description="What the target said the last time, or that spans were left out.")
    at: datetime = Field(description="The time of the last rejection.")


class ExpiredOut(ApiModel):
    """Spans that matched and were deleted before they were delivered: by retention, or with their trace."""

    spans: int = Field(description="Spans; one that expires again after a replay counts again.")
    at: datetime | None = Field(None, description="The time when the subscription last passed such spans.")


class LastError(ApiModel):
    """The last failure, also if a later try succeeded."""

    reason: str = Field(description="What failed.")
    at: datetime = Field(description="The time of the failure.")


class SkippedBatch(ApiModel):
    """A batch that was passed by request."""

    batch_id: str = Field(description="The id of the batch.")
    spans: int = Field(description="Spans in the batch when it was read.")
    at: datetime = Field(description="The time of the request.")
    reason: str | None = Field(None, description="The last error before it.")
    position: str = Field(description="The position before the batch; replay from there delivers it again.")


class SubscriptionOut(ApiModel):
    """A subscription and its state."""

    id: UUID
    slug: str
    name: str | None = None
    on: FeedKind = Field(description="What is delivered.")
    filtering: dict[str, Any] | None = Field(None, description="The filter.")
    query_ref: dict[str, str] | None = Field(None, description="The saved query that it follows.")
    query_revision_ref: dict[str, str] | None = Field(None, description="The revision that it is pinned to.")
    target: TargetOut = Field(description="Where spans are delivered.")
    status: State = Field(description="`retrying` after a failure, until a try succeeds.")
    reason: str | None = Field(None, description="Why it is paused.")
    position: str = Field(description="Where delivery continues; `from` of another subscription takes it.")
    lag_s: float = Field(
        description="Seconds since everything that was stored had been delivered; 0 while nothing is left to deliver."
    )
    pending: PendingBatch | None = Field(None, description="The batch that is being delivered or retried.")
    delivered: Delivered = Field(description="What was delivered.")
    rejected: RejectedOut | None = Field(None, description="What the target rejected of it.")
    expired: ExpiredOut = Field(description="What was deleted before it was delivered.")
    last_error: LastError | None = Field(None, description="The last failure.")
    skipped: list[SkippedBatch] | None = Field(None, description="The last batches that were skipped, newest last.")
    created_at: datetime
    created_by_id: UUID
    updated_at: datetime | None = None
    updated_by_id: UUID | None = None


class SubscriptionResponse(ApiModel):
    """One subscription."""

    count: int = Field(description="Always 1.")
    subscription: SubscriptionOut
    warning: str | None = Field(None, description="Why the target cannot be reached now.")


class SubscriptionsResponse(ApiModel):
    """Subscriptions, oldest first."""

    count: int = Field(description="The number of subscriptions in this response.")
    subscriptions: list[SubscriptionOut]


class TestDelivery(ApiModel):
    """The result of a test."""

    __test__ = False

    batch_id: str = Field(description="The id of the batch that was sent.")
    delivered: bool = Field(description="Whether the target acknowledged it.")
    reason: str | None = Field(None, description="Why it did not.")
    duration_ms: float = Field(description="How long it took.")


class TestDeliveryResponse(ApiModel):
    """The result of a test; the state of the subscription does not change."""

    __test__ = False

    count: int = Field(description="Always 1.")
    delivery: TestDelivery
