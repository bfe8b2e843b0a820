"""Flat ``ag.*`` attributes of SDKs: typed texts and older names."""

import pytest

from ingest.ag import decode_ag_attributes


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
