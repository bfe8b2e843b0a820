"""Hostile and meaningless filters get 400, 422 or a result, but never a statement that the engine rejects, a row of
another project, or 500.

Both projects of the corpus hold spans with the same ids, so a surplus row belongs to the other project.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import InvalidInput
from common.settings import ClickHouseSettings
from common.times import SystemClock
from query_api.filter.language import FIELDS, GroupOperator, Node, Operator
from query_api.filter.parse import parse, resolve_times
from query_api.pages.spans import SpansQuery
from query_api.request.json_body import read_body
from tests.support.api import context_of, serving
from tests.support.filter_corpus import FilterCorpus, filter_corpus
from tests.support.filters import FILTERS, NOW_US

SEED = 20_260_102
SPANS_COUNT = 60
FILTERS_AT_ONCE = 25
CASES_MIN = 150
HTTP_SHARE = 6
"""Of this many examples one is also sent over HTTP."""

SNIPPETS = (
    "'", '"', "`", "\\", "\\'", "--", "/*", "*/", ";", "%", "_", "%s", "%(x)s", "{x:String}", "{p1:String}", "{of_project}",
    "{project_id:UUID}", "' OR 1=1 --", "') OR ('1'='1", "UNION ALL SELECT * FROM spans", "\0", "\n", "\r", "\t", "\x1a", "\ufeff",
    "\ud800", "\udfff", "😀", "é", "e\u0301", "\u202e", "${x}", "$1", "\\1", "\\Q", "\\E", "(", ")", "[", "[[:alpha:]]", "(?i)", "(?=",
    "(?P<n>", "(?<n>", "a{1000}", "(a*)*", "(a|aa)+$", "\\pL{50}", "\\C", "\\b", "{1,1000}", "^", "$", ".", "..", "a.b", "0", "1", "-1",
    "99999999999", "ag", "attributes.", "x" * 300, "a." * 60,
)  # fmt: skip
TEXT = st.lists(st.sampled_from(SNIPPETS), max_size=5).map("".join) | st.text(max_size=8)
NUMBER = st.sampled_from([0, -0.0, 1, 5e-324, 1.7e308, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400, 0.1])
VALUE = st.recursive(
    TEXT | NUMBER | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
DEEP = st.integers(1, 90).map(lambda depth: json.loads("[" * depth + "1" + "]" * depth))
FIELD = st.sampled_from([*FIELDS, *FIELDS, *FIELDS, "name", "attributes.x", ""])
MEMBERS = st.sampled_from(["id", "slug", "trace_id", "name", "attributes", "attributes.key", "timestamp", "flags"])
CONDITION = st.fixed_dictionaries(
    {"field": FIELD},
    optional={
        "key": TEXT | st.just("attributes.key") | st.none(),
        "operator": st.sampled_from([str(name) for name in Operator]) | st.just("equals"),
        "value": VALUE | DEEP | st.lists(st.dictionaries(MEMBERS | TEXT, VALUE, max_size=2), max_size=3),
        "options": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("all", "case_sensitive", "exact_match"), st.booleans())
        ),
        "extra": st.just(1),
    },
)
LIKELY = st.fixed_dictionaries(
    {
        "field": st.sampled_from(["attributes", "resource", "span_name", "status_message", "start_time"]),
        "operator": st.sampled_from(["is", "contains", "startswith", "endswith", "like", "matches", "gt", "eq"]),
        "value": TEXT,
    },
    optional={"options": st.fixed_dictionaries({"case_sensitive": st.booleans(), "exact_match": st.booleans()})},
)
KEYED = st.tuples(LIKELY, TEXT).map(
    lambda pair: {**pair[0], "key": pair[1]} if pair[0]["field"] in ("attributes", "resource") else pair[0]
)
GROUPED = st.recursive(
    KEYED | KEYED | CONDITION | FILTERS,
    lambda inner: st.fixed_dictionaries(
        {"operator": st.sampled_from([*map(str, GroupOperator), "xor"]), "conditions": st.lists(inner, max_size=3)}
    ),
    max_leaves=3,
)


@pytest.fixture(scope="module")
def corpus(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> Iterator[FilterCorpus]:
    with filter_corpus(chdb_settings(), chdb_dir, seed=SEED, spans_count=SPANS_COUNT) as stored:
        yield stored


@pytest.mark.timeout(3_600)
@settings(max_examples=max(CASES_MIN, settings().max_examples // 2) // FILTERS_AT_ONCE)
@given(st.lists(GROUPED, min_size=FILTERS_AT_ONCE, max_size=FILTERS_AT_ONCE), st.integers(1, HTTP_SHARE))
def test_engine_accepts_every_accepted_filter(corpus: FilterCorpus, filterings: list[Any], share: int) -> None:
    bodies = [_body(filtering) for filtering in filterings]
    nodes = [node for node in map(_accepted, bodies) if node is not None]

    for spans, node in zip(corpus.verdicts(nodes), nodes, strict=True):
        assert spans == corpus.meant(node)
    if share == 1:
        corpus.runner.run(_ask_all(corpus, bodies))


def _body(filtering: Any) -> bytes:
    whole = filtering if "conditions" in filtering else {"conditions": [filtering]}
    return json.dumps({"filtering": whole}).encode()


def _accepted(body: bytes) -> Node | None:
    try:
        node = parse(read_body(SpansQuery, body, content_type=None, required=False).filtering)
    except InvalidInput:
        return None
    return resolve_times(node, now_us=NOW_US)


async def _ask_all(corpus: FilterCorpus, bodies: list[bytes]) -> None:
    own = {(response["trace_id"], response["span_id"]) for response in corpus.answers}
    context = context_of(store=corpus.store, clock=SystemClock())
    async with serving(context) as client:
        for body in bodies:
            async with client.post("/spans/query", data=body) as response:
                assert response.status in (200, 400, 422), await response.text()
                found = [(span["trace_id"], span["span_id"]) for span in (await response.json()).get("spans", [])]
                assert len(set(found)) == len(found)
                assert own.issuperset(found)


@pytest.mark.parametrize(
    "pattern",
    ["(a{1000}){1000}", "((a{100}){100}){100}", r"\pL{1000}", "(" * 20_000 + "a" + ")" * 20_000, "(x+x+)+y" * 50, "|".join("ab" * 9_000)],
    ids=["nested repeats", "thrice nested", "wide class", "parentheses", "exponential elsewhere", "alternatives"],
)  # fmt: skip
def test_costly_filter_is_rejected_or_harmless(corpus: FilterCorpus, pattern: str) -> None:
    conditions = [{"field": "attributes", "key": "a", "operator": "matches", "value": pattern}]

    node = _accepted(_body({"conditions": conditions}))

    assert node is None or corpus.verdicts([node]) == [corpus.meant(node)]
