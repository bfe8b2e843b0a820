"""The canonical shape of ``ag``, rule by rule (reference §3.2), the attributes it is read from, and references."""

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.ids import parse_span_id, parse_trace_id
from common.span import SPAN_TYPES, Link
from ingest.ag import (
    REFERENCE_KEYS,
    canonical_ag,
    clean_reference,
    decode_ag_attributes,
    empty_ag,
    hashes_of,
    references_of,
    references_sent,
)

KEYS = st.sampled_from(
    [
        "type",
        "trace",
        "span",
        "node",
        "data",
        "parameters",
        "inputs",
        "outputs",
        "internals",
        "metrics",
        "duration",
        "errors",
        "tokens",
        "costs",
        "cumulative",
        "incremental",
        "total",
        "prompt",
        "completion",
        "count",
        "value",
        "unit",
        "session",
        "user",
        "id",
        "slug",
        "version",
        "flags",
        "tags",
        "meta",
        "configuration",
        "exception",
        "selector",
        "references",
        "application",
        "testcase",
        "query_variant",
        "other",
        "refs",
        "hashes",
        "agent",
        "unsupported",
        "_invalid",
        "_unsupported",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([*SPAN_TYPES, "", "x", "{", '{"a": 1}', "[1]", "a b", "019d952f594571b1b8cbd6d8e675c18d"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


def canonical(sent: Any) -> dict[str, Any]:
    """Return the canonical ``ag`` of ``sent``, without what every ``ag`` has."""
    ag = canonical_ag(sent, trace_type="invocation")
    skeleton = empty_ag("invocation")
    del ag["type"]["trace"], skeleton["type"]["trace"]
    return {key: value for key, value in ag.items() if value != skeleton.get(key, ...)}


@given(VALUES)
@example({"unsupported": {"type": 5, "metrics": {"tokens": [1]}}, "type": {"x": 1}, "metrics": {"tokens": {"x": 1}}})
@example({"meta": {"configuration": {}}, "data": {"parameters": {}}})
def test_canonical_shape_is_total_and_idempotent(sent: Any) -> None:
    before = copy.deepcopy(sent)

    ag = canonical_ag(sent, trace_type="invocation")

    assert sent == before
    assert ag.keys() >= {"type", "data", "metrics"}
    assert ag["metrics"].keys() == {"duration", "errors", "tokens", "costs"}
    assert canonical_ag(ag, trace_type="invocation") == ag


@pytest.mark.parametrize("sent", [None, {}, {"type": None, "data": None, "metrics": None, "refs": {"x": 1}}])
def test_empty_ag_has_the_empty_shape(sent: Any) -> None:
    assert canonical_ag(sent, trace_type="annotation") == empty_ag("annotation")


@pytest.mark.parametrize("sent", [5, "x", [], [1], False])
def test_ag_that_is_not_an_object_moves_to_unsupported(sent: Any) -> None:
    assert canonical(sent) == {"unsupported": {"_invalid": sent}}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        # type
        ({"type": {"trace": "annotation", "span": "chat"}}, {"type": {"span": "chat"}}),
        ({"type": {"span": "CHAT"}}, {}),
        ({"type": {"span": ["chat"]}}, {}),
        ({"type": {"node": "x"}}, {"unsupported": {"type": {"node": "x"}}}),
        # data
        ({"data": {"inputs": '{"a": 1}'}}, {"data": {"inputs": {"a": 1}}}),
        ({"data": {"inputs": "[1]"}}, {"unsupported": {"data": {"inputs": "[1]"}}}),
        ({"data": {"inputs": "{"}}, {"unsupported": {"data": {"inputs": "{"}}}),
        ({"data": {"parameters": 5, "internals": [1]}}, {"unsupported": {"data": {"parameters": 5, "internals": [1]}}}),
        ({"data": {"outputs": '{"a": 1}'}}, {"data": {"outputs": '{"a": 1}'}}),
        ({"data": {"outputs": None, "inputs": None}}, {"data": {"outputs": None}}),
        ({"data": {"other": 1}}, {"unsupported": {"data": {"other": 1}}}),
        # what is used
        ({"metrics": {"x": 1}}, {"unsupported": {"metrics": {"x": 1}}}),
        ({"metrics": {"tokens": 5}}, {"unsupported": {"metrics": {"tokens": 5}}}),
        ({"metrics": {"tokens": {"acc": 5}}}, {"unsupported": {"metrics": {"tokens": {"acc": 5}}}}),
        (
            {"metrics": {"duration": {"cumulative": True, "incremental": "5 ms"}}},
            {"unsupported": {"metrics": {"duration": {"cumulative": True, "incremental": "5 ms"}}}},
        ),
        (
            {"metrics": {"costs": {"incremental": 5}}},
            {"unsupported": {"metrics": {"costs": {"incremental": 5}}}},
        ),
        # identity
        ({"session": {"id": "s", "other": 1}, "user": {"id": 7}}, {"session": {"id": "s"}, "user": {"id": "7"}}),
        ({"session": "s", "user": {"id": {}}}, {"unsupported": {"session": "s"}}),
        # free objects
        (
            {"flags": {"x": None}, "tags": {}, "exception": {"a": 1}},
            {"flags": {"x": None}, "tags": {}, "exception": {"a": 1}},
        ),
        (
            {"flags": [1], "tags": ["a"], "exception": "x"},
            {"unsupported": {"flags": [1], "tags": ["a"], "exception": "x"}},
        ),
        ({"selector": {"a": "b"}}, {"selector": {"a": "b"}}),
        ({"selector": {"a": 1}}, {"unsupported": {"selector": {"a": 1}}}),
        # meta
        ({"meta": {}}, {}),
        ({"meta": {"a": 1, "configuration": {"b": 2}}}, {"meta": {"a": 1}, "data": {"parameters": {"b": 2}}}),
        ({"meta": {"configuration": '{"b": 2}'}}, {"data": {"parameters": {"b": 2}}}),
        (
            {"meta": {"configuration": {"b": 2}}, "data": {"parameters": {"c": 3}}},
            {"data": {"parameters": {"c": 3}}, "unsupported": {"meta": {"configuration": {"b": 2}}}},
        ),
        # references
        ({"references": {"query": {"version": 3, "slug": "a b"}}}, {"references": {"query": {"version": "3"}}}),
        ({"references": {"query": {"slug": "."}}}, {"references": {"query": {}}}),
        ({"references": {"other": {"slug": "a"}, "query": None}}, {}),
        ({"references": {"query": "q"}}, {"unsupported": {"references": {"query": "q"}}}),
        # the rest
        (
            {"hashes": 1, "agent": {"id": "a"}, "x": None},
            {"unsupported": {"hashes": 1, "agent": {"id": "a"}, "x": None}},
        ),
        ({"unsupported": {"a": 1}, "b": 2}, {"unsupported": {"a": 1, "b": 2}}),
        ({"unsupported": 5, "b": 2}, {"unsupported": {"_unsupported": 5, "b": 2}}),
        (
            {"unsupported": {"type": 5}, "type": {"x": 1}},
            {"unsupported": {"type": {"_unsupported": 5, "x": 1}}},
        ),
    ],
)
def test_rules_of_the_reference_are_applied(sent: dict[str, Any], expected: dict[str, Any]) -> None:
    assert canonical(sent) == expected


@pytest.mark.parametrize(
    ("sent", "number"),
    [
        (5, 5),
        (0.5, 0.5),
        ({"total": 1, "count": 2}, 1),
        ({"total": True, "count": 2}, 2),
        ("5", 5),
        ({"count": "2", "value": 3}, 2),
        ({"total": "two", "count": True, "value": "3e0"}, 3),
    ],
)
def test_scalar_metrics_collapse_to_a_number(sent: Any, number: float) -> None:
    assert canonical({"metrics": {"errors": {"incremental": sent}}})["metrics"]["errors"] == {"incremental": number}


def test_amounts_are_kept_unchanged() -> None:
    tokens = {"incremental": {"prompt": 1, "cached": 2}, "cumulative": {}}

    assert canonical({"metrics": {"tokens": tokens}})["metrics"]["tokens"] == tokens


def test_amount_as_text_is_the_number() -> None:
    sent = {"incremental": {"prompt": "10", "total": "1e1", "cached": "many", "reasoning": " 1"}}

    assert canonical({"metrics": {"tokens": sent, "costs": {"incremental": {"total": "0.25"}}}})["metrics"] == {
        "duration": {},
        "errors": {},
        "tokens": {"incremental": {"prompt": 10, "total": 10, "cached": "many", "reasoning": " 1"}},
        "costs": {"incremental": {"total": 0.25}},
    }


def test_unsupported_members_take_linear_time() -> None:
    unsupported = {str(number): number for number in range(100_000)}

    assert canonical({"metrics": unsupported, "type": unsupported})["unsupported"] == {
        "metrics": unsupported,
        "type": unsupported,
    }


@pytest.mark.parametrize(
    "part", ["data", "metrics", "flags", "meta", "type", "links", "exception", "session", "user", "agent"]
)
def test_typed_texts_are_read_under_the_listed_keys(part: str) -> None:
    key = f"ag.{part}.x"

    assert decode_ag_attributes({key: '@ag.type=json:{"a": [1.0]}'}) == {key: {"a": [1]}}
    assert decode_ag_attributes({key: "@ag.type=none:"}) == {key: None}


def test_typed_texts_are_read_under_refs() -> None:
    assert decode_ag_attributes({"ag.refs.application.slug": '@ag.type=json:"app"'}) == {
        "ag.references.application.slug": "app"
    }


@pytest.mark.parametrize("key", ["ag.tags.x", "ag.unsupported.x", "ag.dat", "other.ag.data.x", "gen_ai.prompt"])
def test_typed_texts_elsewhere_stay_texts(key: str) -> None:
    assert decode_ag_attributes({key: "@ag.type=json:1"}) == {key: "@ag.type=json:1"}


@pytest.mark.parametrize("text", ["@ag.type=json:{", "@ag.type=json:", "@ag.type=yaml:1", "x@ag.type=json:1"])
def test_unreadable_typed_text_is_kept_as_sent(text: str) -> None:
    assert decode_ag_attributes({"ag.data.inputs": text}) == {"ag.data.inputs": text}


@pytest.mark.parametrize(
    ("older", "current"),
    [
        ("ag.refs.testcase.id", "ag.references.testcase.id"),
        ("ag.refs.variant.slug", "ag.references.application_variant.slug"),
        ("ag.references.variant.id", "ag.references.application_variant.id"),
        ("ag.references.variant.slug", "ag.references.application_variant.slug"),
        ("ag.references.variant.version", "ag.references.application_revision.version"),
        ("ag.references.environment.version", "ag.references.environment_revision.version"),
        ("ag.references.environment.slug", "ag.references.environment.slug"),
        ("ag.metrics.unit.tokens.cache_read", "ag.metrics.tokens.incremental.cache_read"),
        ("ag.metrics.unit.costs.total", "ag.metrics.costs.incremental.total"),
        ("ag.metrics.acc.tokens.total", "ag.metrics.tokens.cumulative.total"),
        ("ag.metrics.acc.costs.total", "ag.metrics.costs.cumulative.total"),
        ("ag.metrics.unit.other.x", "ag.metrics.unit.other.x"),
        ("ag.type.node", "ag.type.span"),
    ],
)
def test_older_names_are_replaced_by_current_ones(older: str, current: str) -> None:
    assert decode_ag_attributes({older: "1"}) == {current: "1"}


def test_node_type_is_lower_cased() -> None:
    assert decode_ag_attributes({"ag.type.node": "CHAT"}) == {"ag.type.span": "chat"}
    assert decode_ag_attributes({"ag.type.node": 5}) == {"ag.type.span": 5}
    assert decode_ag_attributes({"ag.type.span": "CHAT"}) == {"ag.type.span": "CHAT"}


def test_duration_of_older_sdks_is_dropped() -> None:
    assert decode_ag_attributes({"ag.metrics.acc.duration.total": 5}) == {}


def test_the_later_of_two_names_wins() -> None:
    assert decode_ag_attributes({"ag.refs.query.slug": "a", "ag.references.query.slug": "b"}) == {
        "ag.references.query.slug": "b"
    }


def test_ag_that_is_not_an_object_is_renamed() -> None:
    assert decode_ag_attributes({"ag": 5, "ag.data.outputs": 1}) == {"ag.unsupported._invalid": 5, "ag.data.outputs": 1}
    assert decode_ag_attributes({"ag": None, "ag.data.outputs": 1}) == {"ag.data.outputs": 1}
    assert decode_ag_attributes({"ag": {"x": 1}, "ag.data.outputs": 1}) == {"ag": {"x": 1}, "ag.data.outputs": 1}


DASHED = "019d952f-5945-71b1-b8cb-d6d8e675c18d"


def test_reference_keys_are_22() -> None:
    assert len(REFERENCE_KEYS) == 22
    assert {"testcase", "application", "application_variant", "environment_revision", "snippet"} < REFERENCE_KEYS


@pytest.mark.parametrize("spelling", [DASHED, DASHED.upper(), DASHED.replace("-", ""), "0x" + DASHED.replace("-", "")])
def test_id_in_any_spelling_becomes_dashed(spelling: str) -> None:
    assert clean_reference({"id": spelling}) == {"id": DASHED}


@pytest.mark.parametrize("no_uuid", ["x", "", "+" + "1" * 31, "1_" * 16, DASHED + "0", DASHED.replace("-", "") + "\n"])
def test_id_that_is_not_a_uuid_is_not_in_the_array(no_uuid: str) -> None:
    cleaned = clean_reference({"id": no_uuid, "slug": "s"})

    assert cleaned == {"id": no_uuid, "slug": "s"}
    assert references_of({"application": cleaned}) == [{"slug": "s", "attributes": {"key": "application"}}]


@pytest.mark.parametrize("slug", ["a", "-", "_x.y-z", "9", "a.b"])
def test_valid_slug_is_kept(slug: str) -> None:
    assert clean_reference({"slug": slug}) == {"slug": slug}


@pytest.mark.parametrize("slug", ["", ".", "..", ".x", "a/b", "a b", "é", "a\n"])
def test_invalid_slug_is_dropped(slug: str) -> None:
    assert clean_reference({"slug": slug}) == {}


def test_scalar_members_become_texts() -> None:
    assert clean_reference({"id": 5, "slug": 7, "version": 3, "other": 1}) == {"id": "5", "slug": "7", "version": "3"}
    assert clean_reference({"version": True}) == {"version": "true"}
    assert clean_reference({"id": None, "slug": {}, "version": ["3"]}) == {}


def test_reference_without_valid_members_is_an_element_with_its_key() -> None:
    assert references_of({"query": {}}) == [{"attributes": {"key": "query"}}]


def test_sent_references_are_cleaned_and_keep_their_attributes() -> None:
    sent: list[Any] = [
        {"id": DASHED.upper(), "attributes": {"key": "application", "x": 1}, "other": 2},
        {"slug": "s"},
        5,
    ]

    assert references_sent(sent) == [{"id": DASHED, "attributes": {"key": "application", "x": 1}}, {"slug": "s"}]
    assert sent[0]["id"] == DASHED.upper()


APPLICATION = {"id": "019d952f-5945-71b1-b8cb-d6d8e675c18d", "slug": "app", "attributes": {"key": "application"}}
APPLICATION_REVISION = {"version": "3", "attributes": {"key": "application_revision"}}


def link(attributes: dict[str, Any]) -> Link:
    return Link(parse_trace_id("a0000001000000000000000000000000"), parse_span_id("1111111111111111"), attributes)


def indirect(hash_id: str) -> list[dict[str, Any]]:
    return [{"id": hash_id, "attributes": {"key": "indirect"}}]


def test_hash_of_references_equals_the_vector() -> None:
    hashes = hashes_of([APPLICATION, APPLICATION_REVISION], ())

    assert hashes == indirect("d3c8a323-8abe-92a5-d1d4-bb89e23f10ed")


def test_hash_of_links_equals_the_vector() -> None:
    hashes = hashes_of([], [link({"key": "invocation"})])

    assert hashes == indirect("8480856d-1ace-ffa0-0314-1af76cff6863")


def test_hash_of_slugs_equals_the_vector() -> None:
    hashes = hashes_of([{"slug": "ref-a", "attributes": {"key": "application"}}], ())

    assert hashes == indirect("ca2258ba-b4ee-3e42-cef0-3e239469e0fb")


def test_order_of_references_does_not_matter() -> None:
    assert hashes_of([APPLICATION, APPLICATION_REVISION], ()) == hashes_of([APPLICATION_REVISION, APPLICATION], ())


@pytest.mark.parametrize(
    "attributes",
    [{"key": "testset_variant"}, {"key": "testset_revision"}, {"key": "other"}, {"key": 5}, {"key": None}, {}],
)
def test_references_under_other_keys_are_ignored(attributes: dict[str, Any]) -> None:
    odd = {"slug": "x", "attributes": attributes}

    assert hashes_of([odd], ()) is None
    assert hashes_of([odd, APPLICATION], ()) == hashes_of([APPLICATION], ())


def test_empty_reference_is_ignored() -> None:
    assert hashes_of([{"attributes": {"key": "application"}}, {"slug": "x"}], ()) is None


@pytest.mark.parametrize("attributes", [{}, {"key": 5}, {"key": None}, {"key": {}}])
def test_links_without_a_key_are_ignored(attributes: dict[str, Any]) -> None:
    assert hashes_of([], [link(attributes)]) is None
