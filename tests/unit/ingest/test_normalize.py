"""Normalization of one record: what is computed, what is promoted, and that repeating it changes nothing."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.clickhouse.leaves import SpanLeaves
from common.ids import parse_span_id, parse_trace_id
from common.nesting import Nesting
from common.span import NO_METRICS, Attributes, Event, Link, Metrics, NormalizedSpan, Resource, Span
from ingest.normalize import normalize
from tests.support.sample_records import NAMES, normals_of, spans_of

TRACE = parse_trace_id("a0000001000000000000000000000000")
OTHER_TRACE = parse_trace_id("a0000002000000000000000000000000")
LINK = Link(TRACE, parse_span_id("1111111111111111"), {"key": "invocation"})
APPLICATION_ID = "019d952f-5945-71b1-b8cb-d6d8e675c18d"

SEGMENTS = st.sampled_from(
    [
        "ag",
        "type",
        "trace",
        "span",
        "node",
        "data",
        "parameters",
        "inputs",
        "outputs",
        "metrics",
        "duration",
        "errors",
        "tokens",
        "costs",
        "cumulative",
        "incremental",
        "unit",
        "acc",
        "total",
        "prompt",
        "completion",
        "session",
        "user",
        "agent",
        "id",
        "slug",
        "version",
        "meta",
        "configuration",
        "references",
        "refs",
        "application",
        "variant",
        "unsupported",
        "0",
        "1",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([0.5, 1e308, -1e308, 1e-7])
    | st.sampled_from(
        [
            "",
            "CHAT",
            "chat",
            "tool",
            '[{"role": "user"}]',
            '{"a": 1}',
            '@ag.type=json:{"a": [0.5]}',
            "@ag.type=none:",
            "@ag.type=json:{",
        ]
    )
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SEGMENTS, inner, max_size=3), max_leaves=8
)
KEYS = st.lists(SEGMENTS, min_size=1, max_size=5).map(".".join)
AG_KEYS = KEYS.map("ag.".__add__) | st.sampled_from(["ag", "x", "y.ag.z"])
OTHER_KEYS = st.sampled_from(
    [
        "error.type",
        "gen_ai.agent.name",
        "gen_ai.input.messages",
        "gen_ai.operation.name",
        "gen_ai.prompt.0.content",
        "gen_ai.usage.input_tokens",
        "input.value",
        "llm.input_messages.0.message.content",
        "llm.invocation_parameters",
        "metadata",
        "openinference.span.kind",
        "operation.cost",
        "session.id",
        "traceloop.association.properties.tool",
        "traceloop.span.kind",
        "traceloop.entity.name",
    ]
)
ANALYTICS = st.integers(0, 5)


def an_id(number: int) -> bytes:
    return number.to_bytes(8, "big") * 2


def a_span(attributes: Attributes | None = None, *, number: int = 1, parent: int | None = None, **members: Any) -> Span:
    span = Span(
        trace_id=TRACE,
        span_id=an_id(number),
        parent_id=None if parent is None else an_id(parent),
        name="work",
        kind=0,
        start_ns=1_700_000_000_000_000_000,
        end_ns=1_700_000_000_000_000_000,
        status_code=0,
        status_message=None,
        attributes=attributes or {},
    )
    return span._replace(**members)


def an_event(name: str) -> Event:
    return Event(name, 1_700_000_000_000_000_000, {})


def the_normal(span: Span) -> NormalizedSpan:
    (normalized,) = normalize([span])
    return normalized


def metrics_shown(span: Span) -> dict[str, Any]:
    metrics: dict[str, Any] = the_normal(span).attributes["ag"]["metrics"]
    return metrics


def tokens(prompt: float | None = None, completion: float | None = None, total: float | None = None) -> Attributes:
    sent = {"prompt": prompt, "completion": completion, "total": total}
    return {f"ag.metrics.tokens.incremental.{name}": number for name, number in sent.items() if number is not None}


EVENTS = st.lists(st.sampled_from(["exception", "Exception", "log"]).map(an_event), max_size=3).map(tuple)
REFERENCES = st.none() | st.lists(
    st.fixed_dictionaries(
        {}, optional={"id": st.just(APPLICATION_ID), "slug": st.just("s"), "attributes": st.just({"key": "query"})}
    )
)
SPANS = st.builds(
    a_span,
    st.dictionaries(AG_KEYS | OTHER_KEYS, VALUES, max_size=6),
    number=ANALYTICS,
    parent=st.none() | ANALYTICS,
    start_ns=st.integers(0, 3_000),
    end_ns=st.integers(0, 5_000_000),
    events=EVENTS,
    status_code=st.integers(0, 2),
    links=st.sampled_from([None, (), (LINK,), (LINK._replace(attributes={}),)]),
    trace_id=st.sampled_from([TRACE, OTHER_TRACE]),
    references=REFERENCES,
    session_id=st.none() | st.just("s"),
)


def published_again(span: Span, normalized: NormalizedSpan) -> Span:
    """The span as a client that has read it would send it."""
    return span._replace(
        attributes=normalized.attributes,
        references=normalized.references,
        hashes=normalized.hashes,
        session_id=normalized.session_id,
        user_id=normalized.user_id,
        agent_id=normalized.agent_id,
    )


def as_stored(normalized: NormalizedSpan) -> NormalizedSpan:
    """Return the span without what only describes how it was sent."""
    return normalized._replace(sent=Nesting(normalized.attributes, None), flat=None, mapping_errors=())


@given(st.lists(SPANS, max_size=6))
@example([a_span({"ag": 5, "ag.data.x": 1})])
@example([a_span({"ag.data.inputs": '@ag.type=json:"@ag.type=json:1"'})])
@example([a_span(tokens(1e308) | {"ag.metrics.tokens.incremental.completion": 1e308})])
def test_republished_responses_are_unchanged(spans: list[Span]) -> None:
    sent = copy.deepcopy(spans)

    normalized_spans = normalize(spans)

    assert spans == sent
    again = [published_again(span, normalized) for span, normalized in zip(spans, normalized_spans, strict=True)]
    assert list(map(as_stored, normalize(again))) == list(map(as_stored, normalized_spans))


@given(st.lists(SPANS, max_size=6))
def test_result_is_json(spans: list[Span]) -> None:
    for normalized in normalize(spans):
        assert orjson.loads(orjson.dumps(normalized.attributes)) == normalized.attributes


@pytest.mark.parametrize("name", NAMES)
def test_responses_of_samples_published_again_are_unchanged(name: str) -> None:
    again = [
        published_again(span, normalized) for span, normalized in zip(spans_of(name), normals_of(name), strict=True)
    ]

    assert list(map(as_stored, normalize(again))) == list(map(as_stored, normals_of(name)))


def test_plain_span_gets_the_empty_ag_and_its_duration() -> None:
    span = a_span({"http.method": "GET", "http.status": 200, "ok": True}, end_ns=1_700_000_000_012_345_678)

    normalized = the_normal(span)

    ag = {
        "type": {"trace": "invocation"},
        "data": {},
        "metrics": {"duration": {"cumulative": 12.346}, "errors": {}, "tokens": {}, "costs": {}},
    }
    assert normalized == NormalizedSpan(normalized.sent, ag, "invocation", "task", flat=span.attributes)
    assert normalized.attributes == {"http": {"method": "GET", "status": 200}, "ok": True, "ag": ag}


@given(st.lists(SPANS, max_size=3))
@example([a_span({"a": 1, "a.b": 2})])
@example([a_span({"a.b": 1, "a": {"c": 2}})])
@example([a_span({"a.b": None, "c": []})])
@example([a_span({"x.0": "p", "x.1": "q", "": True, "y.": 1.5})])
@example([a_span({"gen_ai.operation.name": "chat"})])
@example([a_span({"session.id": "s"})])
@example([a_span({"tool_response": "r", "gen_ai.agent.name": ""})])
def test_leaves_of_the_fast_path_equal_those_of_the_general_one(spans: list[Span]) -> None:
    """The fast path and the general one agree wherever the fast one is taken."""
    for normalized in normalize(spans):
        fast, general = SpanLeaves(), SpanLeaves()
        if normalized.flat is not None and fast.append_flat(normalized.flat):
            fast.append_ag(normalized.attributes["ag"])
            general.append(normalized.attributes)
            assert (fast.paths, fast.texts) == (general.paths, general.texts)


def test_shared_values_are_not_changed() -> None:
    nested = {"ag": {"data": {"inputs": {"a": 1}}, "metrics": {"errors": {"incremental": 1}}}, "x": {"y": 1}}
    spans = [a_span(nested, events=(an_event("log"),)), a_span(nested, number=2, parent=1, resource=Resource(nested))]
    before = copy.deepcopy(nested)

    first, second = normalize(spans)

    assert nested == before
    assert first.attributes["ag"] is not second.attributes["ag"]
    assert first.attributes["ag"]["metrics"]["errors"] == {"incremental": 0, "cumulative": 1}


@pytest.mark.parametrize(
    ("duration_ns", "shown"),
    [
        (0, {"cumulative": 7}),
        (-5_000_000, {"cumulative": 7}),
        (499, {"cumulative": 7}),
        (500, {"cumulative": 0.001}),
        (1_000_000_000, {"cumulative": 1000}),
        (1_500, {"cumulative": 0.002}),
        (1_234_567_890, {"cumulative": 1234.568}),
    ],
)
def test_duration_is_computed_if_there_is_one(duration_ns: int, shown: dict[str, float]) -> None:
    span = a_span({"ag.metrics.duration.cumulative": 7}, start_ns=10**18, end_ns=10**18 + duration_ns)

    duration = metrics_shown(span)["duration"]

    assert duration == shown
    assert isinstance(duration["cumulative"], type(shown["cumulative"]))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], {"incremental": 9, "cumulative": 9}),
        (["log"], {"incremental": 0}),
        (["exception", "Exception", "exception", "exception.x"], {"incremental": 2, "cumulative": 2}),
    ],
)
def test_errors_are_the_exception_events(names: list[str], shown: dict[str, int]) -> None:
    span = a_span({"ag.metrics.errors.incremental": 9}, events=tuple(map(an_event, names)))

    assert metrics_shown(span)["errors"] == shown


@pytest.mark.parametrize(
    ("exceptions", "count"),
    [
        ([("ValueError", "no such city"), ("ValueError", "no such city")], 1),
        ([("ValueError", "no such city"), ("KeyError", "no such city")], 2),
        ([("ValueError", "no such city"), ("ValueError", "too far")], 2),
        ([("ValueError", "a"), ("KeyError", "a"), ("ValueError", "a"), ("ValueError", None), ("ValueError", None)], 3),
        ([(None, None), (None, None), ("ValueError", "a"), ("ValueError", "a")], 3),
    ],
    ids=["the same", "another type", "another message", "several", "nothing to compare"],
)
def test_exception_that_is_recorded_twice_is_one_error(
    exceptions: list[tuple[str | None, str | None]], count: int
) -> None:
    """Libraries record an exception and raise it again; then the end of the span records it a second time."""
    events = tuple(
        an_event("exception")._replace(
            attributes={
                key: text
                for key, text in zip(("exception.type", "exception.message"), texts, strict=True)
                if text is not None
            }
        )
        for texts in exceptions
    )
    tool = a_span(number=2, parent=1, events=events)

    root, failed = normalize([a_span(number=1), tool])

    assert failed.attributes["ag"]["metrics"]["errors"] == {"incremental": count, "cumulative": count}
    assert root.attributes["ag"]["metrics"]["errors"]["cumulative"] == count


@pytest.mark.parametrize("links", [(), (LINK,)])
def test_links_make_only_their_own_trace_an_annotation(links: tuple[Link, ...]) -> None:
    spans = [a_span(number=1), a_span(number=2, parent=1, links=links), a_span(trace_id=OTHER_TRACE)]

    normalized_spans = normalize(spans)

    assert [normalized.trace_type for normalized in normalized_spans] == ["annotation", "annotation", "invocation"]
    assert [normalized.attributes["ag"]["type"]["trace"] for normalized in normalized_spans] == [
        "annotation",
        "annotation",
        "invocation",
    ]


def test_sent_trace_type_is_ignored() -> None:
    assert the_normal(a_span({"ag.type.trace": "annotation"})).trace_type == "invocation"


@pytest.mark.parametrize(
    ("attributes", "span_type", "shown"),
    [
        ({}, "task", {}),
        ({"ag.type.span": "llm"}, "llm", {"span": "llm"}),
        ({"ag.type.node": "CHAT"}, "chat", {"span": "chat"}),
        ({"ag.type.span": "other"}, "task", {}),
    ],
)
def test_sent_span_type_is_in_ag(attributes: Attributes, span_type: str, shown: dict[str, str]) -> None:
    normalized = the_normal(a_span(attributes))

    assert normalized.span_type == span_type
    assert normalized.attributes["ag"]["type"] == {"trace": "invocation"} | shown


def test_references_of_ag_replace_those_sent_outside_of_it() -> None:
    sent = [{"slug": "beside", "attributes": {"key": "query"}}]
    attributes = {"ag.refs.application.id": APPLICATION_ID.upper(), "ag.refs.variant.version": 3}

    normalized = the_normal(a_span(attributes, references=sent))

    assert normalized.references == [
        {"id": APPLICATION_ID, "attributes": {"key": "application"}},
        {"version": "3", "attributes": {"key": "application_revision"}},
    ]
    assert the_normal(a_span(references=sent)).references == sent
    assert the_normal(a_span(references=[])).references is None


def test_hashes_are_computed_if_there_are_references_or_links() -> None:
    sent = [{"id": APPLICATION_ID}]

    assert the_normal(a_span(hashes=sent)).hashes == sent
    assert the_normal(a_span(hashes=[])).hashes is None
    assert the_normal(a_span({"ag.refs.application.slug": "ref-a"}, hashes=sent)).hashes == [
        {"id": "ca2258ba-b4ee-3e42-cef0-3e239469e0fb", "attributes": {"key": "indirect"}}
    ]
    assert the_normal(a_span(links=(LINK,))).hashes == [
        {"id": "8480856d-1ace-ffa0-0314-1af76cff6863", "attributes": {"key": "indirect"}}
    ]


def test_identity_of_a_root_is_that_of_its_attributes() -> None:
    sent: dict[str, Any] = {"session_id": "a", "user_id": "b", "agent_id": "c"}
    attributes = {"ag.session.id": "s", "ag.user.id": 7, "ag.agent.id": "w"}

    root = the_normal(a_span(attributes, **sent))

    assert (root.session_id, root.user_id, root.agent_id) == ("s", "7", "w")
    assert root.attributes["ag"]["unsupported"] == {"agent": {"id": "w"}}
    bare = the_normal(a_span(**sent))
    assert (bare.session_id, bare.user_id, bare.agent_id) == (None, None, None)


def test_identity_of_a_child_is_that_sent_outside_of_its_attributes() -> None:
    child = the_normal(a_span({"ag.session.id": "s", "ag.agent.id": "w"}, parent=9, session_id="a", agent_id="c"))

    assert (child.session_id, child.user_id, child.agent_id) == ("a", None, "c")


@pytest.mark.parametrize(
    ("attributes", "metrics"),
    [
        ({}, NO_METRICS),
        (tokens(1, 2, 5), Metrics(1, 2, 5)),
        (tokens(1, 2), Metrics(1, 2, 3)),
        (tokens(total=5), Metrics(tokens_total=5)),
        (tokens(True, 2), Metrics(0, 2, 2)),
        (tokens(0, 0, 0), NO_METRICS),
        ({"ag.metrics.unit.costs.total": 0.5, "ag.metrics.errors.incremental": 2}, Metrics(costs_total=0.5, errors=2)),
        ({"ag.metrics.tokens.cumulative.total": 5}, NO_METRICS),
        ({"ag.metrics.tokens.incremental.total": "5"}, Metrics(tokens_total=5)),
        ({"ag.metrics.tokens.incremental.total": "five"}, NO_METRICS),
    ],
)
def test_own_metrics_are_the_incremental_numbers(attributes: Attributes, metrics: Metrics) -> None:
    assert the_normal(a_span(attributes)).metrics == metrics


def test_sums_of_the_record_replace_sent_ones() -> None:
    sent = {"ag.metrics.tokens.cumulative.total": 99, "ag.metrics.tokens.cumulative.cached": 1}
    spans = [
        a_span(sent | {"ag.metrics.costs.cumulative.total": 0.5}, number=1),
        a_span(tokens(10, 5, 15), number=2, parent=1),
        a_span({}, number=3, parent=1),
        a_span(tokens(0.5, 1, 1.5), number=4, parent=3),
    ]

    root, call, middle, leaf = (normalized.attributes["ag"]["metrics"] for normalized in normalize(spans))

    assert root["tokens"] == {"cumulative": {"prompt": 10.5, "completion": 6, "total": 16.5}}
    assert root["costs"] == {"cumulative": {"total": 0.5}}
    assert call["tokens"]["cumulative"] == {"prompt": 10, "completion": 5, "total": 15}
    assert middle["tokens"] == {"cumulative": {"prompt": 0.5, "completion": 1, "total": 1.5}}
    assert leaf["tokens"]["cumulative"] == {"prompt": 0.5, "completion": 1, "total": 1.5}
    assert isinstance(middle["tokens"]["cumulative"]["completion"], int)


def test_sum_past_the_largest_double_is_not_written() -> None:
    assert metrics_shown(a_span(tokens(1e308, 1e308)))["tokens"].keys() == {"incremental"}


def test_attributes_outside_of_ag_are_unchanged() -> None:
    attributes = {
        "@ag.type": "@ag.type=json:1",
        "gen_ai.note": "@ag.type=json:1",
        "ag.data.outputs": "@ag.type=json:[1]",
    }

    normalized = the_normal(a_span(attributes))

    assert normalized.attributes["gen_ai"] == {"note": "@ag.type=json:1"}
    assert normalized.attributes["ag"]["data"] == {"outputs": [1]}


@pytest.mark.parametrize(
    ("key", "value", "path", "shown"),
    [
        ("ag.type.span", "unheard-of", ("type", "span"), "chat"),
        ("ag.session.id", ["s"], ("session", "id"), "said"),
        ("ag.metrics.tokens", 5, ("metrics", "tokens", "incremental"), {"prompt": 9, "total": 9}),
        ("ag.metrics.tokens.incremental", "many", ("metrics", "tokens", "incremental"), {"prompt": 9, "total": 9}),
        ("ag.data.inputs", "words", ("data", "inputs"), {"messages": [{"role": "user", "content": "Hello."}]}),
        ("ag.meta", "words", ("meta", "request"), {"model": "m"}),
        ("ag.type.span", "tool", ("type", "span"), "tool"),
        ("ag.session.id", 5, ("session", "id"), "5"),
        ("ag.metrics.tokens.incremental.prompt", 1, ("metrics", "tokens", "incremental"), {"prompt": 1}),
        ("ag.data.inputs", '{"a": 1}', ("data", "inputs"), {"a": 1}),
    ],
)
def test_readable_values_sent_as_ag_win(key: str, value: Any, path: tuple[str, ...], shown: Any) -> None:
    mapped = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.input.messages": '[{"role": "user", "content": "Hello."}]',
        "session.id": "said",
    }

    found: Any = the_normal(a_span(mapped | {key: value})).attributes["ag"]
    for member in path:
        found = found[member]

    assert found == shown


TOLD = (
    Event("gen_ai.user.message", 0, {"content": "Hello."}),
    Event("gen_ai.content.completion", 0, {"gen_ai.completion": "[{"}),
)


@pytest.mark.parametrize(
    ("attributes", "inputs"),
    [
        ({}, None),
        ({"gen_ai.operation.name": "chat"}, {"messages": [{"role": "user", "content": "Hello."}]}),
        (
            {"gen_ai.input.messages": '[{"role": "user", "content": "On the span."}]'},
            {"messages": [{"role": "user", "content": "On the span."}]},
        ),
        ({"gen_ai.operation.name": "chat", "ag.data.inputs.question": "?"}, {"question": "?"}),
    ],
)
def test_events_add_what_attributes_of_their_convention_lack(attributes: Attributes, inputs: Any) -> None:
    normalized = the_normal(a_span(attributes, events=TOLD))

    assert normalized.attributes["ag"]["data"] == ({} if inputs is None else {"inputs": inputs})
    assert list(normalized.mapping_errors) == (["not_json"] if attributes else [])


def test_empty_record_gives_no_spans() -> None:
    assert normalize([]) == []
