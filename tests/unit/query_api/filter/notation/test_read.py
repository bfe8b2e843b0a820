"""Written filters mean what the same filter as JSON means; what is no filter is said at its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidFilter
from query_api.filter.language import FIELDS, Kind
from query_api.filter.notation.names import read_field, read_score
from query_api.filter.notation.read import DEPTH_MAX, WrongFilter, read_filter
from query_api.filter.parse import FilteringModel, parse
from tests.strategies import hostile_text

ID = "0a" * 16


def condition(field: str, operator: str, *value: Any, key: str | None = None) -> dict[str, Any]:
    keyed = {} if key is None else {"key": key}
    return {"field": field, **keyed, "operator": operator, **({"value": value[0]} if value else {})}


def of_attributes(key: str, operator: str, *value: Any) -> dict[str, Any]:
    return condition("attributes", operator, *value, key=key)


def group(operator: str, *members: dict[str, Any]) -> dict[str, Any]:
    return {"operator": operator, "conditions": list(members)}


COSTS, SHOP = condition("cost", "gt", 1), condition("service", "is", "shop")
HAS_MODEL = condition("model", "exists")


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("span_type is chat", [condition("span_type", "is", "chat")]),
        ("cost gt 0.01", [condition("cost", "gt", 0.01)]),
        ("cost > $0.01", [condition("cost", "gt", 0.01)]),
        ("tokens > 2k and tokens < 1.5M", [condition("tokens", "gt", 2_000), condition("tokens", "lt", 1_500_000)]),
        ("duration >= 1.5s", [condition("duration", "gte", 1_500)]),
        ("duration>=2min", [condition("duration", "gte", 120_000)]),
        ("temperature.x lt -1", [of_attributes("temperature.x", "lt", -1)]),
        ("http.status is 500", [of_attributes("http.status", "is", 500)]),
        ('http.status is "500"', [of_attributes("http.status", "is", "500")]),
        ("session.id = s-1", [of_attributes("session.id", "is", "s-1")]),
        ("attributes.retry is true", [of_attributes("retry", "is", True)]),
        ("scores.Relevance > 0.5", [condition("scores", "gt", 0.5, key="Relevance")]),
        ("scores.a.b is good", [condition("scores", "is", "good", key="a.b")]),
        ("scores exists", [condition("scores", "exists")]),
        ("resource.service.name = shop", [condition("resource", "is", "shop", key="service.name")]),
        ("status is error", [condition("status_code", "is", "STATUS_CODE_ERROR")]),
        ("kind = client", [condition("span_kind", "is", "SPAN_KIND_CLIENT")]),
        ("tool = get_rows", [of_attributes("ag.meta.tool.name", "is", "get_rows")]),
        ("session_id is 1e5", [condition("session_id", "is", "1e5")]),
        ("session is 42", [condition("session", "is", "42")]),
        ("session=s-1 and cost>=0.5", [condition("session", "is", "s-1"), condition("cost", "gte", 0.5)]),
        ("user!=u-9 AND user is not u-8", [condition("user", "is_not", "u-9"), condition("user", "is_not", "u-8")]),
        ("user == u-9 && user<>u-8", [condition("user", "is", "u-9"), condition("user", "is_not", "u-8")]),
        ("cost=>1 || cost=<0.5", [group("or", condition("cost", "gte", 1), condition("cost", "lte", 0.5))]),
        ("user === u-9 and user !== u-8", [condition("user", "is", "u-9"), condition("user", "is_not", "u-8")]),
        ("cost ≥ 1 or cost≤0.5", [group("or", condition("cost", "gte", 1), condition("cost", "lte", 0.5))]),
        ("status ≠ error", [condition("status_code", "is_not", "STATUS_CODE_ERROR")]),
        ("!(cost > 1)", [group("not", COSTS)]),
        ("service = “shop”", [SHOP]),
        ("service = ’shop’ and service in ‚shop‘", [SHOP, condition("service", "in", ["shop"])]),
        ("service in „a, b“, «c», ‘d e’", [condition("service", "in", ["a, b", "c", "d e"])]),
        ("name is say “hi” there", [condition("span_name", "is", "say “hi” there")]),
        ("name is don’t stop", [condition("span_name", "is", "don’t stop")]),
        ("name = “”", [condition("span_name", "is", "")]),
        ("user in [ada, bob]", [condition("user", "in", ["ada", "bob"])]),
        ("name in [GET /a, 'b, c']", [condition("span_name", "in", ["GET /a", "b, c"])]),
        ('service is shop and "card declined"', [SHOP, condition("content", "contains", '"card declined"')]),
        (
            "“war and peace” or 'x'",
            [group("or", *(condition("content", "contains", it) for it in ('"war and peace"', '"x"')))],
        ),
        ("name =~ ^Pay", [condition("span_name", "matches", "^Pay")]),
        ("status = Failed", [condition("status_code", "is", "STATUS_CODE_ERROR")]),
        ("type in CHAT, tool", [condition("span_type", "in", ["chat", "tool"])]),
        ('name = "a cost > 3"', [condition("span_name", "is", "a cost > 3")]),
        ("span_id is 1234567890123456", [condition("span_id", "is", "1234567890123456")]),
        ("start_time gte -15m", [condition("start_time", "gte", "-15m")]),
        ("end_time eq 1777636802500", [condition("end_time", "eq", 1_777_636_802_500)]),
        ("parent_id is null", [condition("parent_id", "is", None)]),
        ("span_name contains null", [condition("span_name", "contains", "null")]),
        ("service in shop,pay", [condition("service", "in", ["shop", "pay"])]),
        ('service in ["a,b"]', [condition("service", "in", ["a,b"])]),
        ("type not in (chat, 'llm')", [condition("span_type", "not_in", ["chat", "llm"])]),
        ("tokens btwn 10,20", [condition("tokens", "btwn", [10, 20])]),
        ("name = fetch (a url)", [condition("span_name", "is", "fetch (a url)")]),
        ("name is don't stop", [condition("span_name", "is", "don't stop")]),
        ('text contains "a and (b"', [condition("content", "contains", "a and (b")]),
        ("name is 'salt and pepper'", [condition("span_name", "is", "salt and pepper")]),
        ("name is and", [condition("span_name", "is", "and")]),
        ("cost > 1 and service is shop", [COSTS, SHOP]),
        ("(cost > 1 and (service is shop))", [COSTS, SHOP]),
        ("cost > 1 or service is shop", [group("or", COSTS, SHOP)]),
        ("cost > 1 or service is shop and model exists", [group("or", COSTS, group("and", SHOP, HAS_MODEL))]),
        ("(cost > 1 or service is shop) and model exists", [group("or", COSTS, SHOP), HAS_MODEL]),
        ("not cost > 1 and service is shop", [group("not", COSTS), SHOP]),
        ("not (cost > 1 or service is shop)", [group("not", group("or", COSTS, SHOP))]),
        ("NOT not model exists", [group("not", group("not", HAS_MODEL))]),
        (ID, [condition("trace_id", "is", ID)]),
        ("0A0a0A0a0A0a0A0a and cost > 1", [condition("span_id", "is", "0a0a0a0a0a0a0a0a"), COSTS]),
        (f'not "{ID}"', [group("not", condition("trace_id", "is", ID))]),
    ],
)
def test_text_is_the_filter(text: str, conditions: list[dict[str, Any]]) -> None:
    written = read_filter(text)

    assert written.filtering == {"conditions": conditions}
    assert not written.searched
    parse(FilteringModel.model_validate(written.filtering))


@pytest.mark.parametrize(
    ("text", "place", "message", "allowed"),
    [
        ("sesion = s-1", "sesion", "“sesion” is not a field. Did you mean “session”?", ["session"]),
        ("zzz = 3", "zzz", "Write attributes.zzz for an attribute, scores.zzz for a score.", []),
        ("cost > 1 and zzz is 3", "zzz", "“zzz” is not a field.", []),
        ("cost > 1 and refund", "refund", 'In quotes, "refund", it is searched for.', ["cost"]),
        ("failed and cost > 1", "failed", "Did you mean “status = error”?", ["status = error"]),
        ("status:error and cost > 1", "status:error", "Did you mean “status = error”?", []),
        ("dauer > 3", "dauer", "Write attributes.dauer for an attribute", ["duration"]),
        ("and cost > 1", "and", "No condition stands before “and”.", ["cost"]),
        ("cost > 1 and or cost > 2", "or", "No condition stands before “or”.", ["cost"]),
        ("(and cost > 1)", "and", "No condition stands before “and”.", ["cost"]),
        ("(cost > 1 or) and model exists", ")", "A condition begins with a field.", ["cost"]),
        ("cost > 1 and not", "", "A condition begins with a field.", ["cost"]),
        ('cost > 1 and "refund', '"', "This quote is not closed.", ['"']),
        ("tokens > 1,000", "1,000", "A number is written without commas: 1000.", []),
        ("cost > 1,234,567.5", "1,234,567.5", "A number is written without commas: 1234567.5.", []),
        ("cost > 1,5", "1,5", "A number is written without commas: 1.5.", []),
        ("http.status > 1,000", "1,000", "A number is written without commas: 1000.", []),
        ("name is salt and pepper", "pepper", "A value that contains “and” needs quotes.", []),
        ("attributes is 3", "attributes", "attributes needs a path: attributes.http.status = 500.", []),
        ("cost is", "", "“cost” needs a value here.", []),
        ("cost contains 3 or text is 3", "is", "“is” is no operator of text.", ["contains"]),
        ("status = eror", "eror", "error, failed, ok, unset. Did you mean “error”?", ["error"]),
        (
            "settled in complete, never",
            "complete, never",
            "“never” is no value of settled: complete, inc",
            ["complete"],
        ),
        ("session = s-1 cost > 3", "cost", "“and” or “or” must stand before “cost”.", ["and", "or"]),
        ('name = "a" cost > 3', "cost", "“and” or “or” must stand before “cost”.", ["and", "or"]),
        ("name in (a, b) cost > 3", "cost", "“and” or “or” must stand before “cost”.", ["and", "or"]),
        ("name in (a, b", "(a, b", "This list is not closed.", [")"]),
        ("cost > 0,005", "0,005", "A number is written without commas: 0.005.", []),
        ("cost > " + "9" * 400, "9" * 400, "This number is too large for cost.", []),
        ("session = s-1, http.status=3", "http.status", "A value that contains it needs quotes.", ["and", "or"]),
        ("cost > abc", "abc", "“abc” is no value of cost: it needs a number, without a unit or as in $1.", []),
        ("duration > 3 days", "3 days", "“3 days” is no value of duration", []),
        ("cost is 3 and", "", "A condition must follow the last “and”.", []),
        ("model exists now", "now", "“model exists” takes no value", ["and", "or"]),
        ("(cost is 3", "(", "This bracket is not closed.", [")"]),
        ("cost is 3) and model exists", ")", "This bracket closes none that is open.", []),
        ('name is "a', '"', "This quote is not closed.", ['"']),
        ("name is “a", "“", "This quote is not closed.", ["”"]),
        ("name is 'a and cost > 1", "'", "This quote is not closed.", ["'"]),
        ("service in [a", "[a", "This list is not closed.", ["]"]),
        ("user in [a b]", "[a b]", "Commas must be between the values of a list; got “a b”. If it is one", []),
        ("type in (chat tool)", "(chat tool)", "Commas must be between the values of a list; got “chat tool”.", []),
        ("user in 'a' 'b'", "'a' 'b'", "Commas must be between the values of a list; got “'a' 'b'”.", []),
        ("   ", "", "A condition begins with a field.", ["span_type"]),
        ("(" * DEPTH_MAX + "cost > 1", "c", f"At most {DEPTH_MAX} brackets", []),
    ],
)
def test_wrong_text_is_named_at_its_place(text: str, place: str, message: str, allowed: list[str]) -> None:
    with pytest.raises(WrongFilter) as refused:
        read_filter(text)

    assert text[refused.value.begin : refused.value.end] == place
    assert message in str(refused.value)
    assert set(allowed) <= set(refused.value.allowed)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("refund policy", None),
        ("what is love", None),
        ("  war and peace ", None),
        ("session s-1", "session = s-1"),
        ("session: s-1", "session = s-1"),
        ("sesion is s-1", "session is s-1"),
        ("model", None),
        ("Failed", "status = error"),
        ("errors", "status = error"),
        ("running", "state = running"),
        ("failed runs", None),
        ("not failed", "not status = error"),
        ("!failed", "not status = error"),
        ("status:error", "status = error"),
        ("status:error and service:shop", "status = error and service = shop"),
        ("not failed OR running", "not status = error OR state = running"),
        ("failed and what", None),
        ("session s-1 and b", None),
        ("dauer 3", None),
        ("and now", None),
        ("http://a.example", None),
    ],
)
def test_text_without_a_condition_is_searched_for_its_words(text: str, hint: str | None) -> None:
    written = read_filter(text)

    assert written.filtering == {"conditions": [condition("content", "contains", text.strip())]}
    assert (written.searched, written.hint) == (True, hint)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (f" {ID} ", "trace_id"),
        (ID.upper(), "trace_id"),
        ("0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a", "trace_id"),
        ("urn:uuid:{0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a}", "trace_id"),
        (f"https://spans.example/ui/traces/{ID}?find=x", "trace_id"),
        (f"http://a/ui/traces/{ID}?fold=1&span=0a0a0a0a0a0a0a0a&tab=raw", "span_id"),
        ("0x0A0a0A0a0A0a0A0a", "span_id"),
        ("0a0a0a0a-0a0a0a0a", "span_id"),
    ],
)
def test_id_is_recognized_in_every_spelling(text: str, field: str) -> None:
    written = read_filter(text)

    assert written.is_id
    assert written.filtering == {"conditions": [condition(field, "is", "0a" * (16 if field == "trace_id" else 8))]}


@pytest.mark.parametrize("text", [f"trace_id is {ID}", f"{ID} and cost > 1", ID[1:], "12-ab", f'"{ID}"'])
def test_other_texts_are_no_id(text: str) -> None:
    assert not read_filter(text).is_id


def test_parts_are_what_was_written() -> None:
    text = " cost > 1  and (service is shop or model exists ) and not model exists"

    written = read_filter(text)

    assert [text[part.begin : part.end] for part in written.parts] == [
        "cost > 1",
        "(service is shop or model exists )",
        "not model exists",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("model exists and trace_id is nope", "trace_id is nope"),
        ("model exists or (cost > 1 and trace_id is nope)", "trace_id is nope"),
    ],
)
def test_place_of_a_path_is_its_innermost_part(text: str, place: str) -> None:
    written = read_filter(text)

    with pytest.raises(InvalidFilter) as refused:
        parse(FilteringModel.model_validate(written.filtering))

    part = written.place_of(refused.value.path)
    assert part is not None
    assert text[part.begin : part.end] == place


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_can_be_named(name: str) -> None:
    assert read_field(name) == {"field": name}
    if FIELDS[name].kind is Kind.JSON:
        assert read_field(f"{name}.a.b") == {"field": name, "key": "a.b"}


def test_score_is_named_by_its_field_and_its_name() -> None:
    assert read_score("scores.a.b") == {"field": "scores", "key": "a.b"}
    assert [read_score(name) for name in ("scores", "scores.", "cost", "attributes.scores.a", "a b")] == [None] * 5
    with pytest.raises(WrongFilter, match="scores needs the name of a score"):
        read_filter("scores > 0.5")


PIECES = [
    "cost",
    ">",
    "1",
    "and",
    "or",
    "not",
    "(",
    ")",
    "model",
    "exists",
    "in",
    "a,b",
    "http.x",
    "=",
    "'",
    '"a b"',
    "“a b”",
    "!",
    ID,
]


@given(st.text() | hostile_text(60) | st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_any_text_is_a_filter_or_a_problem(text: str) -> None:
    places: list[tuple[int, int]]
    try:
        written = read_filter(text)
    except WrongFilter as problem:
        places = [(problem.begin, problem.end)]
    else:
        FilteringModel.model_validate(written.filtering)
        places = [(part.begin, part.end) for part in written.parts]

    assert all(0 <= begin <= end <= len(text) for begin, end in places)
