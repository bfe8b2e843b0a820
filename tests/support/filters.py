"""Random filters for hypothesis: every field with every operator and option that it takes, over the names and values of
``span_corpus.py``, so that they are true of some spans and false of others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from query_api.filter.language import ALLOWED_OPERATORS, FIELDS, SHORTHANDS, WITHOUT_KEY, Field, GroupOperator, Kind
from tests.support.span_corpus import ANALYTICS, COLLIDING_KEYS, KEYS, SCALARS, SCORE_NAMES, SEGMENTS, START_NS, TEXTS

PATHS = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=4).map(".".join) | st.sampled_from(
    [
        *COLLIDING_KEYS,
        "ag",
        "ag.type",
        "ag.type.trace",
        "ag.type.span",
        "ag.data",
        "ag.data.outputs",
        "ag.metrics",
        "ag.metrics.tokens",
        "ag.metrics.duration.cumulative",
        "ag.metrics.tokens.incremental.total",
        "ag.metrics.errors.incremental",
        "ag.metrics.tokens.cumulative",
        "ag.metrics.tokens.cumulative.total",
        "ag.metrics.tokens.cumulative.other",
        "ag.metrics.tokens.cumulative.total.below",
        "ag.metrics.costs.cumulative",
        "ag.metrics.costs.cumulative.prompt",
        "ag.metrics.errors.cumulative",
        "ag.metrics.errors.cumulative.",
        "attributes.a",
        "attributes.0.0",
        "name",
        "version",
        "attributes.name",
        "name.a",
        "schema_url",
        "dropped_attributes_count",
        "service",
        "service.name",
        "attributes.service.name",
        "a\0b",
        "nowhere",
    ]
)
SHORT_TEXTS = ["gpt-4.1", "gpt-4.1-mini", *TEXTS[:8]]
SHORT_NUMBERS = [0, 1, 5, 61, 0.1, 0.001, 0.0015, 1000, 1000.0, "5", "61"]
"""What the shorthands hold."""

OWNED_PATHS = st.sampled_from(["service.name", "attributes.service.name", "name", "attributes.name", "version"])
"""Keys that are frequent on ``resource`` and ``scope``."""

NUMBER = (
    st.sampled_from(ANALYTICS) | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.sampled_from(TEXTS) | st.text(max_size=3)
SCALAR = st.sampled_from(SCALARS) | NUMBER | TEXT
VALUE = st.recursive(
    SCALAR | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=5,
)
TIME = st.sampled_from(
    [
        "2026-05-28T20:26:40Z",
        "2026-05-28T20:26:41",
        "2026-05-28T22:26:42.000001+02:00",
        "2026-05-28",
        1780000000,
        1780000000123,
        "1780000000123456",
        START_NS,
        START_NS + 1_123_456_789,
    ]
)
NOW_US = START_NS // 1000 + 2_123_456
"""What relative times count from: the time of some spans."""

ANY_TIME = TIME | st.sampled_from(["now", "-0h", "-1s", "-2s", "-1m", "-2w"])

SPAN_ID = st.integers(1, 200).map(lambda number: f"{number:016x}") | st.just("0x0000000000000002")
TRACE_ID = st.integers(1, 40).map(lambda number: f"{number:02X}" * 16)
UUIDS = st.integers(0, 3).map(lambda number: str(UUID(int=number))) | st.just(UUID(int=1).hex.upper())
ORDERED = ("eq", "neq", "gt", "gte", "lt", "lte")
PATTERNED = ("contains", "startswith", "endswith", "like", "matches")

PART = (
    st.sampled_from(
        ["", "a", "A", "é", "É", "5", ".", "e", "e+", "E-6", "0", "true", "ALSE", "x", "X" * 70, "k", "s", "ss", "σ"]
    )
    | TEXT
)
MOMENT = st.sampled_from(["2026-05-28t20", "T20:26:4", ".123456z", "00Z", "2026", 2026, "1970", ":26:43.123456Z"])
LIKE = st.lists(st.sampled_from(["%", "_", "\\", "\\%", "\\_", "a", "É", "5", "x", ".", "\n", "%%"]), max_size=6).map(
    "".join
)
REGEX = st.lists(
    st.sampled_from(
        ["a", "É", ".", ".*", "^", "$", "a+", "[^a]", "(a|é)", "(?i)", "(?s).", r"\d", r"\pL", r"\bs", "x{3,70}", "|", r"\Q.", r"\z"]
    ),
    min_size=1,
    max_size=5,
).map("".join)  # fmt: skip
FLAG = st.sampled_from([None, False, True])
OPTIONS = st.none() | st.fixed_dictionaries({"case_sensitive": FLAG, "exact_match": FLAG})

FLAT_KEY = st.sampled_from(["key", "a", "a.b", "0", "exception.message", "a.a", "nowhere", ""])
COMMON = {"attributes": st.dictionaries(st.sampled_from(["key", "a", "a.b"]), VALUE, max_size=2)}
MEMBERS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "links": {
        "trace_id": st.integers(1, 4).map(lambda number: f"{number:02X}" * 16),
        "span_id": st.integers(1, 4).map(lambda number: f"0x{number:016X}"),
        "trace_state": st.sampled_from(["a=b", "a"]),
        "flags": st.sampled_from([0, 1, 1.0]),
        **COMMON,
    },
    "references": {
        "id": UUIDS,
        "slug": st.sampled_from(["a", "checkout.v2", "b"]),
        "version": st.sampled_from(["1", 1, 2, "2.0"]),
        **COMMON,
    },
    "events": {
        "name": st.sampled_from(["exception", "checkout failed", "", "é", 5]),
        "timestamp": TIME,
        "time_unix_nano": TIME,
        "dropped_attributes_count": st.sampled_from([0, 1, 1.0]),
        **COMMON,
    },
    "hashes": {"id": UUIDS, **COMMON},
}
KEY_VALUE = (
    st.sampled_from(["application", "evaluator", "indirect", "é", "a"])
    | SCALAR
    | VALUE.filter(lambda value: value is not None)
)


def partials(field: Field) -> st.SearchStrategy[Any]:
    """Partial elements of a field of elements."""
    plain = st.fixed_dictionaries({}, optional=MEMBERS[field.name])
    keyed = st.dictionaries(FLAT_KEY.map("attributes.{}".format), KEY_VALUE, max_size=1)
    partial = st.tuples(plain, st.just({}) | keyed).map(lambda parts: {**parts[0], **parts[1]})
    return partial | UUIDS if field.name == "hashes" else partial


def scalars(field: Field) -> st.SearchStrategy[Any]:
    """Values that a field is compared with."""
    match field.kind:
        case Kind.TRACE_ID:
            return TRACE_ID
        case Kind.SPAN_ID:
            return SPAN_ID
        case Kind.ENUM:
            return st.sampled_from(field.values)
        case Kind.TIME:
            return ANY_TIME
        case Kind.UUID:
            return UUIDS
        case Kind.SHORTHAND:
            return st.sampled_from([*SHORT_TEXTS, *SHORT_NUMBERS]) | SCALAR
        case _:
            return SCALAR


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    """Any valid condition."""
    favoured = st.sampled_from(
        [
            *[
                "attributes",
                "attributes",
                "attributes",
                "resource",
                "scope",
                "scores",
                "links",
                "references",
                "events",
                "hashes",
            ],
            *SHORTHANDS,
        ]
    )
    field = draw(favoured.map(FIELDS.__getitem__) | st.sampled_from(list(FIELDS.values())))
    operator = str(draw(st.sampled_from(ALLOWED_OPERATORS[field.kind])))
    condition: dict[str, Any] = {"field": field.name, "operator": operator}
    if field.kind is Kind.JSON:
        condition["key"] = draw(PATHS if field.name == "attributes" else PATHS | OWNED_PATHS)
    if field.kind is Kind.SCORES:
        keys = st.sampled_from([*SCORE_NAMES, "nowhere", "", "a\0b"])
        if operator not in WITHOUT_KEY or draw(st.booleans()):
            condition["key"] = draw(keys)
    if field.kind is Kind.CONTENT:
        return {**condition, "value": draw(contents())}
    if field.kind is Kind.ELEMENTS:
        return {**condition, **draw(element_members(field, operator))}
    return {**condition, **draw(operands(field, operator))}


def comparables(field: Field) -> list[st.SearchStrategy[Any]]:
    """Numbers, and texts, that a field is ordered by."""
    if field.kind is not Kind.SHORTHAND:
        return [NUMBER, TEXT]
    numbers = [number for number in SHORT_NUMBERS if not isinstance(number, str)]
    return [st.sampled_from(numbers) | NUMBER, st.sampled_from(SHORT_TEXTS) | TEXT]


@st.composite
def operands(draw: st.DrawFn, field: Field, operator: str) -> dict[str, Any]:
    """``value`` and ``options`` of a condition on a scalar or a path."""
    if operator in ("is", "is_not"):
        nothing = st.nothing() if field.is_required else st.none()
        return {"value": draw(VALUE if field.kind in (Kind.JSON, Kind.SCORES) else scalars(field) | nothing)}
    if operator in ("has", "has_not"):
        return {
            "value": draw(
                st.sampled_from([*KEYS, "total", "cumulative"]) | VALUE.filter(lambda value: value is not None)
            )
        }
    if operator in ORDERED:
        return {"value": draw(ANY_TIME if field.kind is Kind.TIME else st.one_of(comparables(field)))}
    if operator == "btwn":
        ends = ANY_TIME if field.kind is Kind.TIME else draw(st.sampled_from(comparables(field)))
        return {"value": draw(st.lists(ends, min_size=2, max_size=2))}
    if operator in PATTERNED:
        text = {"like": LIKE, "matches": REGEX}.get(operator, MOMENT if field.kind is Kind.TIME else PART)
        return {"value": draw(text | PART if operator == "like" else text), "options": draw(OPTIONS)}
    if operator in ("in", "not_in"):
        return {"value": draw(st.lists(scalars(field), max_size=4)), "options": {"all": draw(st.booleans())}}
    return {}


@st.composite
def element_members(draw: st.DrawFn, field: Field, operator: str) -> dict[str, Any]:
    """``key``, ``value`` and ``options`` of a condition on elements."""
    if operator in ("in", "not_in"):
        return {"value": draw(st.lists(partials(field), max_size=3)), "options": {"all": draw(st.booleans())}}
    if operator in ("has", "has_not"):
        if field.name == "hashes" and draw(st.booleans()):
            return {"key": "id", "value": draw(UUIDS)}
        return {"key": f"attributes.{draw(FLAT_KEY)}", "value": draw(KEY_VALUE)}
    return {}


@st.composite
def contents(draw: st.DrawFn) -> str:
    """Words, phrases and exclusions, at least one word."""
    word = st.sampled_from(["a", "É", "5", "CHECKOUT", "failed", "exception", "k", "it", "s", "nowhere", "007", "σας"])
    parts = draw(
        st.lists(word | word.map("-{}".format) | st.tuples(word, word).map('"{0[0]} {0[1]}"'.format), max_size=3)
    )
    return " ".join([draw(word | word.map("-{}".format)), *parts])


SUM = st.sampled_from([0, 1, 2, 3, 5, 6, 7, 0.5, 5.5, 10, "5", None])
SUMS = st.dictionaries(st.sampled_from(["prompt", "completion", "total", "other"]), SUM, max_size=2)
CUMULATIVE = st.fixed_dictionaries({"cumulative": SUMS})


@st.composite
def sum_conditions(draw: st.DrawFn) -> dict[str, Any]:
    """Conditions that a root's sums decide."""
    metric = draw(st.sampled_from(["tokens", "costs", "errors"]))
    amount = "" if metric == "errors" else draw(st.sampled_from([".prompt", ".completion", ".total", ".other"]))
    number = SUM.filter(lambda value: value is not None)
    key, operator, value = draw(
        st.tuples(st.just(f"ag.metrics.{metric}.cumulative{amount}"), st.sampled_from(ORDERED), number)
        | st.tuples(st.just(f"ag.metrics.{metric}.cumulative{amount}"), st.sampled_from(["is", "is_not"]), SUM)
        | st.tuples(st.just(f"ag.metrics.{metric}.cumulative{amount}"), st.sampled_from(PATTERNED), number)
        | st.tuples(
            st.just(f"ag.metrics.{metric}.cumulative{amount}"), st.just("in"), st.lists(number, min_size=1, max_size=3)
        )
        | st.tuples(st.just(f"ag.metrics.{metric}.cumulative"), st.just("is"), SUMS)
        | st.tuples(st.just(f"ag.metrics.{metric}.cumulative"), st.just("has"), st.sampled_from(["total", "other", 5]))
        | st.tuples(
            st.just(f"ag.metrics.{metric}"), st.just("has"), st.sampled_from(["cumulative", "incremental", "x"])
        )
        | st.tuples(st.just(f"ag.metrics.{metric}"), st.just("is"), CUMULATIVE)
        | st.tuples(st.just("ag"), st.just("is"), CUMULATIVE.map(lambda sums: {"metrics": {metric: sums}}))
    )
    return {"field": "attributes", "key": key, "operator": operator, "value": value}


FILTERS = st.recursive(
    conditions() | conditions() | conditions() | sum_conditions(),
    lambda inner: st.fixed_dictionaries(
        {"operator": st.sampled_from([str(name) for name in GroupOperator]), "conditions": st.lists(inner, max_size=3)}
    ),
    max_leaves=4,
)
