"""Tables that are divided among two shards answer as one engine does (ADR 0037).

A case is one random request. Both engines have the same spans, some of them sent again, changed, and from another
partition. ``test_shards_change.py`` has what changes them.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.support.filters import FILTERS
from tests.support.scale import rest_is_long, scaled
from tests.support.two_apis import TwoApis, agree, whole

FEW: Final = 2
MANY: Final = scaled(60, 250)
"""With one epoch and with two: `make test-full` asks 500 of each kind, in an hour."""

NUMBERS: Final = ("duration", "tokens", "cost")
STATISTICS: Final = ("sum", "avg", "min", "max", "p50", "p90", "p99", "uniq")
PLACES: Final = (
    *("span_name", "status_code", "trace_id", "parent_id", "model", "service", "session", "provider"),
    {"field": "attributes", "key": "a"},
)
LIMITS: Final = st.sampled_from([40, 80, 200])
ORDERS: Final = st.sampled_from(["ascending", "descending"])
GROUPS: Final = st.fixed_dictionaries(
    {"group_by": st.lists(st.sampled_from(PLACES), max_size=2, unique_by=str)},
    optional={
        "measures": st.lists(
            st.fixed_dictionaries(
                {"of": st.sampled_from(NUMBERS), "as": st.lists(st.sampled_from(STATISTICS), min_size=1, unique=True)}
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda measure: str(measure["of"]),
        ),
        "interval": st.sampled_from(["1m", "1h"]),
        "limit": st.integers(1, 12),
        "filtering": FILTERS,
    },
)
RANKED: Final = st.fixed_dictionaries({"by": st.sampled_from(NUMBERS), "order": ORDERS})


cases_of: Final = pytest.mark.parametrize("cases", rest_is_long([FEW, MANY]))
pytestmark = pytest.mark.timeout(3_600)


def drawn(cases: int) -> settings:
    phases = [Phase.explicit, Phase.reuse, Phase.generate]  # a request takes too long to look for a smaller one
    return settings(max_examples=cases, phases=phases, suppress_health_check=list(HealthCheck))


@cases_of
def test_pages_of_spans(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @given(FILTERS, LIMITS, ORDERS)
    def check(filtering: dict[str, Any], limit: int, order: str) -> None:
        agree(apis.walks("/spans/query", whole(filtering), {"limit": limit, "order": order}, items="spans"))

    check()


@cases_of
def test_pages_of_traces(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @given(FILTERS, LIMITS, ORDERS, st.sampled_from(["/traces/query", "/traces/summaries/query"]))
    def check(filtering: dict[str, Any], limit: int, order: str, path: str) -> None:
        items = "summaries" if "summaries" in path else "traces"
        agree(apis.walks(path, whole(filtering), {"limit": limit // 4, "order": order}, items=items))

    check()


@cases_of
def test_feed(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @given(FILTERS, LIMITS)
    def check(filtering: dict[str, Any], limit: int) -> None:
        agree(apis.walks("/spans/query", whole(filtering), {"limit": limit, "by": "created_at"}, items="spans"))

    check()


@cases_of
def test_groups(apis: TwoApis, cases: int) -> None:
    @drawn(cases)
    @example({"group_by": ["model"], "measures": [{"of": "cost", "as": ["sum"]}, {"of": "tokens", "as": ["p50"]}]})
    @given(GROUPS)
    def check(body: dict[str, Any]) -> None:
        agree(apis.ask("POST", "/spans/groups/query", body))

    check()


@cases_of
def test_rankings_facets_sessions_and_statistics(apis: TwoApis, cases: int) -> None:
    asked: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
        st.tuples(
            st.sampled_from(["/spans/query", "/traces/query"]), RANKED.map(lambda by: {"windowing": {"sort": by}})
        ),
        st.tuples(st.just("/spans/facets/query"), st.sampled_from([{}, {"keys": [{"field": "span_name"}]}])),
        st.tuples(st.sampled_from(["/spans/sessions/query", "/spans/users/query"]), st.just({})),
        st.tuples(st.just("/tracing/spans/analytics"), st.just({})),
    )

    @drawn(cases)
    @given(asked, FILTERS)
    def check(request: tuple[str, dict[str, Any]], filtering: dict[str, Any]) -> None:
        path, body = request
        agree(apis.ask("POST", path, {**body, **whole(filtering)}))

    check()
