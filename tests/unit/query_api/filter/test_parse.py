"""Which filters are accepted, and the path and text of each error."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from common.errors import InvalidFilter
from common.times import RelativeTime
from query_api.filter.language import (
    EVERYTHING,
    FIELDS,
    Condition,
    Group,
    GroupOperator,
    Kind,
    Node,
    Operator,
    ValuePlace,
)
from query_api.filter.operands import LIST_VALUES_MAX, VALUE_BYTES_MAX, VALUE_CONTAINERS_MAX, VALUE_DEPTH_MAX
from query_api.filter.parse import (
    CONDITIONS_MAX,
    GROUPS_DEPTH_MAX,
    MEMBERS_MAX,
    PATH_SEGMENTS_MAX,
    FilteringModel,
    check_groups,
    has_relative_time,
    parse,
    parse_place,
    resolve_times,
)

TRACE = "0123456789abcdef0123456789abcdef"


def parsed(*conditions: Any, operator: str = "and") -> Node:
    return parse(FilteringModel.model_validate({"operator": operator, "conditions": list(conditions)}))


def one(**condition: Any) -> Node:
    node = parsed(condition)
    assert isinstance(node, Group)
    return node.members[0]


def refusal(**condition: Any) -> str:
    with pytest.raises(InvalidFilter) as caught:
        parsed({}, condition)
    return caught.value.detail


def negation(condition: Condition) -> Group:
    return Group(GroupOperator.NOT, (condition,))


def nested(depth: int) -> dict[str, Any]:
    group: dict[str, Any] = {"conditions": [{"field": "span_name", "value": "x"}]}
    for _ in range(depth - 1):
        group = {"conditions": [group]}
    return group


def test_missing_filter_is_the_empty_filter() -> None:
    assert parse(None) == EVERYTHING == parsed()


def test_condition_without_operator_and_value_is_null() -> None:
    assert one(field="parent_id") == negation(Condition("parent_id", Operator.EXISTS))


@pytest.mark.parametrize(
    ("name", "value", "positive"),
    [
        ("is_not", "x", Condition("span_name", Operator.IS, "x")),
        ("not_in", ["x"], Condition("span_name", Operator.IN, ["x"])),
        ("not_exists", None, Condition("span_name", Operator.EXISTS)),
    ],
)
def test_negative_operators_are_complements(name: str, value: Any, positive: Condition) -> None:
    assert one(field="span_name", operator=name, value=value) == negation(positive)


def test_is_not_null_negates_existence_twice() -> None:
    exists = negation(Condition("attributes", Operator.EXISTS, path=("a", "b")))

    assert one(field="attributes", key="a.b", operator="is_not") == Group(GroupOperator.NOT, (exists,))


@pytest.mark.parametrize("spelling", [TRACE, TRACE.upper(), f"0x{TRACE}", "01234567-89ab-cdef-0123-456789abcdef"])
def test_ids_are_read_in_every_spelling(spelling: str) -> None:
    assert one(field="trace_id", value=spelling) == Condition("trace_id", Operator.IS, TRACE)


def test_span_id_of_eight_bytes_is_doubled() -> None:
    found = one(field="span_id", operator="in", value=["00000000000000AB"])

    assert found == Condition("span_id", Operator.IN, ["00000000000000ab00000000000000ab"])


@pytest.mark.parametrize(
    "spelling",
    ["2024-05-01T12:00:00.000001Z", "2024-05-01T14:00:00.000001999+02:00", 1714564800000001, "1714564800000001000"],
)
def test_times_are_read_in_every_spelling_to_the_microsecond(spelling: str | int) -> None:
    assert one(field="start_time", operator="gt", value=spelling) == Condition(
        "start_time", Operator.GT, 1_714_564_800_000_001
    )


@pytest.mark.parametrize("operator", ["is", "eq", "neq", "gt", "gte", "lt", "lte"])
def test_relative_times_are_resolved_later(operator: str) -> None:
    node = one(field="end_time", operator=operator, value="-15m")

    assert node == Condition("end_time", Operator(operator), RelativeTime("-15m"))
    assert has_relative_time(node)
    assert resolve_times(node, now_us=10**12) == Condition("end_time", Operator(operator), 10**12 - 900_000_000)


def test_relative_times_of_lists_and_groups_are_resolved() -> None:
    node = parsed(
        {"field": "start_time", "operator": "btwn", "value": ["-1h", "2024-05-01"]},
        {"field": "created_at", "operator": "not_in", "value": ["now", 1714564800000001]},
        {"field": "span_name", "value": "now"},
        {"field": "start_time", "operator": "contains", "value": "-15m"},
    )

    resolved = resolve_times(node, now_us=10**12)

    assert resolved == Group(
        GroupOperator.AND,
        (
            Condition("start_time", Operator.BTWN, [10**12 - 3_600_000_000, 1_714_521_600_000_000]),
            negation(Condition("created_at", Operator.IN, [10**12, 1_714_564_800_000_001])),
            Condition("span_name", Operator.IS, "now"),
            Condition("start_time", Operator.CONTAINS, "-15m"),
        ),
    )
    assert not has_relative_time(resolved)
    assert resolve_times(resolved, now_us=0) is resolved


@pytest.mark.parametrize(("value", "text"), [(5, "5"), (5.0, "5"), (0.1, "0.1"), (True, "true"), ("x", "x")])
def test_texts_take_scalars_as_their_text(value: Any, text: str) -> None:
    assert one(field="session_id", value=value) == Condition("session_id", Operator.IS, text)


def test_numbers_under_numeric_operators_stay_numbers() -> None:
    assert one(field="session_id", operator="gt", value=5) == Condition("session_id", Operator.GT, 5)


def test_every_scalar_field_takes_existence_operators() -> None:
    for field in FIELDS.values():
        if field.kind not in (Kind.JSON, Kind.ELEMENTS, Kind.CONTENT):
            assert one(field=field.name, operator="exists") == Condition(field.name, Operator.EXISTS)
            assert one(field=field.name, operator="not_exists") == negation(Condition(field.name, Operator.EXISTS))


def test_place_of_a_field_and_of_a_key() -> None:
    assert parse_place("model", path="by") == ValuePlace("model")
    assert parse_place("attributes", "a.b", path="by") == ValuePlace("attributes", ("a", "b"))
    assert parse_place("resource", "a", path="by") == ValuePlace("resource", ("attributes", "a"))
    assert parse_place("scope", "name", path="by") == ValuePlace("scope", ("name",))


@pytest.mark.parametrize(
    ("field", "key", "message"),
    [
        ("links", None, "by.field: 'links' has no single value; allowed: trace_id, span_id,"),
        ("content", None, "by.field: 'content' has no single value; allowed: trace_id, span_id,"),
        ("name", None, "by.field: 'name' is not a field; allowed: trace_id, span_id,"),
        ("attributes", None, "by.key: 'attributes' key is required"),
        ("span_name", "a", "by.key: 'span_name' has no keys; fields with keys: attributes, resource, scope, scores."),
        ("attributes", "ag.metrics.tokens.cumulative.total", "by.key: 'ag.metrics.tokens.cumulative.total' is a sum"),
    ],
)
def test_place_without_a_single_value_is_refused(field: str, key: str | None, message: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_place(field, key, path="by")

    assert caught.value.detail.startswith(message)


def test_text_options_are_kept() -> None:
    condition = one(
        field="span_name", operator="contains", value=5, options={"case_sensitive": True, "exact_match": True}
    )

    assert condition == Condition("span_name", Operator.CONTAINS, "5", is_case_sensitive=True, is_exact=True)


def test_has_on_elements_is_in() -> None:
    assert one(field="links", operator="has_not", key="attributes.key", value="x") == negation(
        Condition("links", Operator.IN, [{"attributes.key": "x"}])
    )


def test_option_all_is_kept() -> None:
    condition = one(field="attributes", key="a", operator="in", value=[1], options={"all": True})

    assert condition == Condition("attributes", Operator.IN, [1], ("a",), is_all=True)


def test_key_of_a_score_is_not_split() -> None:
    assert one(field="scores", key="a.b", operator="gt", value=1) == Condition("scores", Operator.GT, 1, ("a.b",))
    assert one(field="scores", operator="exists") == Condition("scores", Operator.EXISTS)


REFUSED = [
    ({"field": "name"}, "filtering.conditions[1].field: 'name' is not a field; allowed: trace_id, span_id,"),
    ({"field": "name"}, "provider, session, user, tokens, cost. Did you mean 'span_name'?"),
    ({"field": "durationMs"}, "provider, session, user, tokens, cost. Did you mean 'duration'?"),
    ({"field": "latency"}, "references, events, hashes, scores, content, duration, operation, service, model, provider, session, user, tokens, cost."),
    ({"field": "trace_id", "operator": "gt", "value": 1}, "operator: 'trace_id' does not support 'gt'; allowed: is, is_not, in, not_in, exists, not_exists."),
    ({"field": "trace_id", "operator": "contains", "value": "0a"}, "operator: 'trace_id' does not support 'contains'; allowed: is,"),
    ({"field": "start_time", "operator": "has", "value": "x"}, "operator: 'start_time' does not support 'has'; allowed: is, is_not, eq,"),
    ({"field": "state", "operator": "is", "value": "done"}, "value: 'done'"),
    ({"field": "model", "operator": "has", "value": "x"}, "operator: 'model' does not support 'has'; allowed: is, is_not, eq,"),
    ({"field": "tokens", "value": [1]}, "value: the value must be a string, a number or a boolean; got a list."),
    ({"field": "cost", "operator": "gt", "value": True}, "value: 'gt' needs a number or a string; got a boolean."),
    ({"field": "service", "key": "name", "value": "x"}, "key: 'service' has no keys; fields with keys: attributes, resource, scope, scores."),
    ({"field": "span_name", "operator": "like"}, "value: 'like' needs a string, a number or a boolean; got null."),
    ({"field": "attributes", "key": "a", "operator": "contains", "value": ["x"]}, "value: 'contains' needs a string, a number or a boolean; got a list."),
    ({"field": "start_time", "operator": "startswith", "value": {}}, "value: 'startswith' needs a string, a number or a boolean; got an object."),
    ({"field": "span_name", "operator": "matches", "value": "("}, "value: RE2 does not compile the pattern: missing ): (."),
    ({"field": "span_name", "operator": "contains", "value": "x" * 65_537}, "value: the value has 65537 bytes"),
    ({"field": "attributes", "key": "a", "operator": "has"}, "value: 'has' needs the key of an object or an element of an array; got null."),
    ({"field": "content", "operator": "is", "value": "x"}, "operator: 'content' only supports full-text search operator: 'contains'."),
    ({"field": "content", "operator": "contains"}, "value: 'content' value is required and thus never null for full-text search."),
    ({"field": "content", "operator": "contains", "value": 5}, "value: 'content' value must be a string for full-text search."),
    ({"field": "content", "operator": "contains", "value": ""}, "value: 'content' needs a text with at least one word"),
    ({"field": "content", "operator": "contains", "value": '" - "'}, "value: 'content' needs a text with at least one word"),
    ({"field": "content", "key": "a", "operator": "contains", "value": "x"}, "key: 'content' has no keys"),
    ({"field": "attributes", "value": 1}, "key: 'attributes' key is required"),
    ({"field": "span_name", "key": "a", "value": "x"}, "key: 'span_name' has no keys; fields with keys: attributes, resource, scope, scores."),
    ({"field": "scores", "value": 1}, "key: 'scores' needs the name of a score as key; without one allowed: exists, not_exists."),
    ({"field": "scores", "operator": "is"}, "key: 'scores' needs the name of a score as key"),
    ({"field": "scores", "key": "a" * 65_537, "value": 1}, "key: the value has 65537 bytes"),
    ({"field": "scores", "key": "a", "operator": "gt", "value": [1]}, "value: 'gt' needs a number or a string; got a list."),
    ({"field": "trace_id"}, "value: 'trace_id' is required and thus never null."),
    ({"field": "trace_id", "value": "xyz"}, "value: “xyz” is not a trace id"),
    ({"field": "trace_id", "value": "0" * 32}, "value: A trace id of zeros is not allowed."),
    ({"field": "span_id", "operator": "in", "value": ["00000000000000ab", 5]}, "value[1]: an id must be a string of hexadecimal digits; got a number."),
    ({"field": "span_kind", "value": "server"}, "value: Unsupported condition value: 'server'; allowed: SPAN_KIND_UNSPECIFIED,"),
    ({"field": "status_code", "value": {}}, "value: Unsupported condition value: a list or object"),
    ({"field": "created_by_id", "value": 5}, "value: the value must be a UUID: 32 hexadecimal digits, with or without dashes."),
    ({"field": "created_by_id", "operator": "in", "value": [None]}, "value[0]: the list may hold strings, numbers and booleans; got null."),
    ({"field": "start_time", "operator": "gt", "value": "yesterday"}, "value: Timestamp “yesterday” cannot be read"),
    ({"field": "start_time", "operator": "gt", "value": 17}, "value: Timestamp 17 is ambiguous"),
    ({"field": "start_time", "operator": "gt", "value": 1714564800.5}, "value: a time must be an ISO 8601 string, or an integer of 10, 13, 16 or 19 digits"),
    ({"field": "start_time", "operator": "gt", "value": True}, "value: a time must be an ISO 8601 string, or an integer of 10, 13, 16 or 19 digits (s, ms, µs or ns since 1970); got a boolean; also allowed: now, or a time before now with a unit of s m h d w, such as -15m."),
    ({"field": "start_time", "operator": "gt"}, "value: a time must be"),
    ({"field": "start_time", "operator": "gt", "value": "-15y"}, "19 digits; also allowed: now, or a time before now with a unit of s m h d w, such as -15m."),
    ({"field": "start_time", "operator": "in", "value": ["-999999999w"]}, "value[0]: Timestamp “-999999999w” cannot be read"),
    ({"field": "events", "operator": "in", "value": [{"timestamp": "-15m"}]}, "value[0].timestamp: Timestamp “-15m” cannot be read"),
    ({"field": "attributes", "key": "a", "operator": "gt"}, "value: 'gt' needs a number or a string; got null."),
    ({"field": "attributes", "key": "a", "operator": "gt", "value": True}, "value: 'gt' needs a number or a string; got a boolean."),
    ({"field": "attributes", "key": "a", "operator": "eq", "value": [1]}, "value: 'eq' needs a number or a string; got a list."),
    ({"field": "attributes", "key": "a", "operator": "btwn", "value": [1, "2"]}, "value: 'btwn' needs two numbers or two strings; got one of each."),
    ({"field": "attributes", "key": "a", "operator": "btwn", "value": [1]}, "value: 'btwn' needs a list of exactly two values"),
    ({"field": "attributes", "key": "a", "operator": "btwn", "value": [1, 2, 3]}, "value: 'btwn' needs a list of exactly two values"),
    ({"field": "attributes", "key": "a", "operator": "in", "value": "x"}, "value: 'in' needs a list; got a string."),
    ({"field": "attributes", "key": "a", "operator": "in", "value": [[1]]}, "value[0]: the list may hold strings, numbers and booleans; got a list."),
    ({"field": "attributes", "key": "a", "value": 2**64}, "value: the integer does not fit into 64 bits."),
    ({"field": "attributes", "key": "a", "value": {"x": [-(2**63) - 1]}}, "value: the integer does not fit into 64 bits."),
    ({"field": "attributes", "key": "a", "value": float("inf")}, "value: the number is larger than the largest double."),
    ({"field": "attributes", "key": "a", "value": "\ud800"}, "value: the value is not valid Unicode or JSON."),
    ({"field": "span_name", "value": ["x"]}, "value: the value must be a string, a number or a boolean; got a list."),
    ({"field": "span_name", "operator": "exists", "value": 1}, "value: 'span_name' value is not supported for existence operators."),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "words"), REFUSED)
def test_meaningless_condition_is_refused_with_its_path(condition: dict[str, Any], words: str) -> None:
    detail = refusal(**condition)

    assert detail.startswith("filtering.conditions[1].")
    assert words in detail


def test_error_path_leads_into_groups() -> None:
    with pytest.raises(InvalidFilter, match=r"^filtering\.conditions\[0\]\.conditions\[1\]\.field: "):
        parsed({"operator": "or", "conditions": [{}, {"field": "x"}]})


@pytest.mark.parametrize("name", ["attributes", "resource", "scope"])
def test_existence_on_attributes_ignores_a_value(name: str) -> None:
    key = "a" if name == "attributes" else "attributes.a"
    path = tuple(key.split("."))
    assert one(field=name, key=key, operator="exists", value=7) == Condition(name, Operator.EXISTS, path=path)


@pytest.mark.parametrize(
    ("field", "key", "path"),
    [
        ("attributes", "service.name", "service.name"),
        ("resource", "service.name", "attributes.service.name"),
        ("resource", "attributes.service.name", "attributes.service.name"),
        ("resource", "attributes", "attributes"),
        ("resource", "attributes.attributes.a", "attributes.attributes.a"),
        ("resource", "schema_url", "schema_url"),
        ("resource", "dropped_attributes_count", "dropped_attributes_count"),
        ("resource", "name", "attributes.name"),
        ("resource", "version", "attributes.version"),
        ("scope", "name", "name"),
        ("scope", "version", "version"),
        ("scope", "schema_url", "schema_url"),
        ("scope", "dropped_attributes_count", "dropped_attributes_count"),
        ("scope", "attributes.name", "attributes.name"),
        ("scope", "name.first", "attributes.name.first"),
        ("scope", "attributesx", "attributes.attributesx"),
        ("scope", "", "attributes."),
    ],
)
def test_key_of_resource_and_scope_is_a_path_in_attributes_or_a_member(field: str, key: str, path: str) -> None:
    assert one(field=field, key=key, value="x") == Condition(field, Operator.IS, "x", tuple(path.split(".")))


def test_groups_at_the_depth_limit_and_one_past() -> None:
    parse(FilteringModel.model_validate(nested(GROUPS_DEPTH_MAX)))

    with pytest.raises(InvalidFilter, match="nested deeper than 16"):
        parse(FilteringModel.model_validate(nested(GROUPS_DEPTH_MAX + 1)))


@pytest.mark.parametrize("depth", [GROUPS_DEPTH_MAX + 2, 5_000])
def test_depth_is_refused_before_recursion(depth: int) -> None:
    check_groups(nested(GROUPS_DEPTH_MAX))

    with pytest.raises(InvalidFilter, match="nested deeper than 16"):
        check_groups(nested(depth))


@pytest.mark.parametrize("member", [{}, {"field": "span_name"}, 1, None])
def test_members_are_counted_before_they_are_validated(member: Any) -> None:
    """A body of 1 MB with 300,000 groups without conditions once kept the API busy for 20 s."""
    inner = {"conditions": [member] * (MEMBERS_MAX // 2)}
    check_groups({"conditions": [inner, *inner["conditions"][1:]]})

    with pytest.raises(InvalidFilter, match=f"filtering: more than {MEMBERS_MAX} conditions and groups"):
        check_groups({"conditions": [inner, *inner["conditions"], member]})


def test_conditions_at_the_limit_and_one_past() -> None:
    condition = {"field": "span_name", "value": "x"}
    half = {"conditions": [condition] * (CONDITIONS_MAX // 2)}
    parsed(half, half)

    with pytest.raises(InvalidFilter, match="more than 256 conditions"):
        parsed(half, half, condition)


def test_list_values_at_the_limit_and_one_past() -> None:
    one(field="span_name", operator="in", value=["x"] * LIST_VALUES_MAX)

    assert "the list has 10001 values" in refusal(field="span_name", operator="in", value=["x"] * (LIST_VALUES_MAX + 1))


@pytest.mark.parametrize("name", ["attributes", "resource"])
def test_bytes_of_a_value_at_the_limit_and_one_past(name: str) -> None:
    for value in ("é" * (VALUE_BYTES_MAX // 2), ["x" * (VALUE_BYTES_MAX - 4)]):
        one(field=name, key="a", value=value)

    for value in ("é" * (VALUE_BYTES_MAX // 2) + "x", ["x" * (VALUE_BYTES_MAX - 3)]):
        assert "65537 bytes" in refusal(field=name, key="a", value=value)


def test_segments_of_a_key_at_the_limit_and_one_past() -> None:
    at_most = ".".join("1" * PATH_SEGMENTS_MAX)
    one(field="attributes", key=at_most, value=[])

    assert "the path has 257 segments" in refusal(field="attributes", key=f"{at_most}.1", value=[])


def test_bytes_of_a_key_at_the_limit_and_one_past() -> None:
    one(field="attributes", key="k" * VALUE_BYTES_MAX, value=1)

    assert refusal(field="attributes", key="k" * (VALUE_BYTES_MAX + 1), value=1).startswith(
        "filtering.conditions[1].key: the value has 65537 bytes"
    )


def test_depth_of_a_value_at_the_limit_and_one_past() -> None:
    value: Any = 1
    for _ in range(VALUE_DEPTH_MAX - 1):
        value = [value]
    one(field="attributes", key="a", value=value)

    assert "nests deeper than 64" in refusal(field="attributes", key="a", value=[value])


def test_containers_in_a_value_at_the_limit_and_one_past() -> None:
    one(field="attributes", key="a", value=[[]] * (VALUE_CONTAINERS_MAX - 1))

    assert "more than 256 objects" in refusal(field="attributes", key="a", value=[[]] * VALUE_CONTAINERS_MAX)


@pytest.mark.parametrize(
    ("body", "loc", "kind"),
    [
        ({"operator": "xor"}, ("operator",), "enum"),
        ({"operator": None}, ("operator",), "enum"),
        ({"conditions": [{"field": "a", "operator": "equals"}]}, ("conditions", 0, "Condition", "operator"), "enum"),
        ({"conditions": [{"field": "a", "operator": None}]}, ("conditions", 0, "Condition", "operator"), "enum"),
        ({"conditions": [{"field": "a", "conditions": []}]}, ("conditions", 0, "Condition", "conditions"), "extra_forbidden"),
        ({"conditions": [{"fild": "a"}]}, ("conditions", 0, "Filtering", "fild"), "extra_forbidden"),
        ({"conditions": [3]}, ("conditions", 0, "Filtering"), "model_type"),
        ({"conditions": [{"field": "a", "options": {"any": 1}}]}, ("conditions", 0, "Condition", "options", "any"), "extra_forbidden"),
        ({"condition": []}, ("condition",), "extra_forbidden"),
    ],
)  # fmt: skip
def test_wrong_shape_is_reported_with_its_path(body: dict[str, Any], loc: tuple[str | int, ...], kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        FilteringModel.model_validate(body)

    [error] = caught.value.errors()
    assert (error["loc"], error["type"]) == (loc, kind)
