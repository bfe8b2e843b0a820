"""``GET /prices/unknown``: the models of a project whose calls used tokens and have no cost (docs/prices.md).

The worker names the model of such a call in ``ag.meta.unpriced_model``, so the models are groups of spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic import Field, field_validator

from query_api.analytics.groups import SpanWindow, compute_groups
from query_api.analytics.groups_models import (
    COUNT,
    LIMIT_DEFAULT,
    LIMIT_MAX,
    Aggregate,
    ExaminedModel,
    FieldAndKey,
    GroupsQuery,
    GroupsWindowing,
    MeasureModel,
    OrderByModel,
)
from query_api.filter.language import ATTRIBUTES, Operator
from query_api.filter.parse import ConditionModel, FilteringModel, parse_filter
from query_api.filter.sql.compile import compile_node
from query_api.request.json_body import ApiModel, ShownTime, Strict, refuse_boolean
from query_api.request.references import Bound
from query_api.request.route import Request, Response
from query_api.spans.project_spans import project_spans

PROVIDER: Final = "ag.meta.system"
MODEL: Final = "ag.meta.unpriced_model"
_TOKENS: Final = FieldAndKey(field="tokens")
_START: Final = FieldAndKey(field="start_time")
_HAS_NO_PRICE: Final = FilteringModel(
    conditions=[ConditionModel(field=ATTRIBUTES, key=MODEL, operator=Operator.EXISTS)],
)


class UnpricedParameters(Strict):
    """The calls that count, by their start_time, and the number of models."""

    oldest: Bound | None = Field(None, description="The start of the window, included.")
    newest: Bound | None = Field(None, description="The end of the window, excluded.")
    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="The maximum number of models.")

    _is_number = field_validator("limit", mode="before")(refuse_boolean)


class UnpricedModel(ApiModel):
    """A model without a price, and its calls."""

    provider: str | None = Field(None, description="The provider that the spans name. Absent if they name none.")
    model: str = Field(description="The model that responded, else the requested one.")
    calls: int = Field(description="The number of spans.")
    tokens: int = Field(description="Their tokens, each call counted once.")
    first_seen: ShownTime = Field(description="The start_time of the first call.")
    last_seen: ShownTime = Field(description="The start_time of the last call.")


class UnpricedResponse(ApiModel):
    """Models without a price, the one that was used last first."""

    count: int = Field(description="The number of models in this response.")
    models: list[UnpricedModel]
    others_count: int | None = Field(None, description="The number of further models. Absent if there are none.")
    complete: bool = Field(description="False if the budget ended before the whole window was examined.")
    examined: ExaminedModel | None = Field(
        None, description="Present if `complete` is false: the newest part of the window, to which all numbers refer."
    )


async def list_unpriced(request: Request) -> Response:
    """Return the models whose calls used tokens and got no cost, because no instrumentation reported one and the price
    table has no price: the one that was used last first.
    """
    parameters: UnpricedParameters = request.query
    now_us = request.context.clock.now_ns() // 1_000
    bounds = GroupsWindowing(oldest=parameters.oldest, newest=parameters.newest)
    found = await compute_groups(
        project_spans(request),
        _query(parameters.limit),
        await compile_node(await parse_filter(_HAS_NO_PRICE), now_us=now_us),
        SpanWindow.of(bounds, now_us=now_us),
    )
    members = {"count": found["count"], "models": [_model(group) for group in found["groups"]]}
    if "others" in found:
        members["others_count"] = found["others"]["groups_count"]
    members |= {name: found[name] for name in ("complete", "examined") if name in found}
    return Response(orjson.dumps(members))


def _query(limit: int) -> GroupsQuery:
    return GroupsQuery(
        group_by=[FieldAndKey(field=ATTRIBUTES, key=path) for path in (PROVIDER, MODEL)],
        measures=[
            MeasureModel(of=FieldAndKey(field=COUNT)),
            MeasureModel(of=_TOKENS, statistics=[Aggregate.SUM]),
            MeasureModel(of=_START, statistics=[Aggregate.MIN, Aggregate.MAX]),
        ],
        order_by=OrderByModel(of=_START, statistic=Aggregate.MAX),
        limit=limit,
    )


def _model(group: Mapping[str, Any]) -> dict[str, Any]:
    provider, values = group["by"][PROVIDER], group["values"]
    return {
        **({} if provider is None else {"provider": str(provider)}),
        "model": str(group["by"][MODEL]),
        "calls": values[COUNT],
        "tokens": int(values["tokens"].get("sum", 0)),
        "first_seen": values["start_time"]["min"],
        "last_seen": values["start_time"]["max"],
    }
