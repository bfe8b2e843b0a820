"""The meaning of a filter in plain Python: ``matches(node, span)`` over a span as responses show it (contract §3.2).

The compiler to SQL (``query_api/filter/sql/compile.py``) means the same; ``tests/contract/test_filter_agreement.py``
compares the two. Relative times are resolved before (``parse.py``). Only tests call this module today. It is
part of the product because live tail and subscriptions, which filter spans before they are stored, will call it.

Total and two-valued: every condition is true or false on every span, and nothing raises. A span id is compared as
responses show it, eight bytes: an id that was sent with 128 bits and unequal halves (reference §2.1) is found only by
the engine, under its whole id.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, assert_never

from common.json_values import INT64_MIN, INTEGER_CHARS_MAX, NUMBER_GRAMMAR, UINT64_MAX, is_number
from common.paths import exists_at, value_at
from common.times import parse_time_ns
from query_api.filter.elements import BELOW_ATTRIBUTES
from query_api.filter.language import (
    ATTRIBUTES,
    DURATION,
    FIELDS,
    ID_IN_NAME,
    OPERATION,
    OPERATORS,
    SCORES,
    SHORTHANDS,
    Condition,
    Group,
    GroupOperator,
    Kind,
    Node,
    NotNormalError,
    OperandKind,
    Operator,
)
from query_api.filter.text_search import Content, Phrase, TextSearch, parse_content, spaced, text_of, words_of

_CONTENTS_MAX: Final = 1_024
_NUMBER: Final = re.compile(NUMBER_GRAMMAR)


def matches(node: Node, span: Mapping[str, Any]) -> bool:
    """Return whether a filter lets a span through; ``span`` is a member of ``spans`` in a response."""
    if isinstance(node, Condition):
        return _condition_matches(node, span)
    return not node.members or _combine(node, (matches(member, span) for member in node.members))


def _combine(group: Group, verdicts: Iterable[bool]) -> bool:
    match group.operator:
        case GroupOperator.AND:
            return all(verdicts)
        case GroupOperator.OR:
            return any(verdicts)
        case GroupOperator.NOT | GroupOperator.NAND:
            return not all(verdicts)
        case GroupOperator.NOR:
            return not any(verdicts)
        case _:
            assert_never(group.operator)


def _condition_matches(condition: Condition, span: Mapping[str, Any]) -> bool:
    kind = FIELDS[condition.field].kind
    if kind is Kind.CONTENT:
        return content_matches(_content(str(condition.operand)), span)
    if kind is Kind.SCORES:
        return _scores_match(condition, span.get(SCORES) or ())
    if kind is Kind.SHORTHAND:
        return _holds(condition, shorthand_value(condition.field, span))
    value = shorthand_value(OPERATION, span) if condition.field == OPERATION else span.get(condition.field)
    if value is None:
        return False
    if kind is Kind.ELEMENTS:
        return _elements_match(condition, value)
    if kind is Kind.JSON and condition.operator is Operator.EXISTS:
        return exists_at(value, condition.path)
    return _holds(condition, _compared(condition, kind, value))


def _scores_match(condition: Condition, scores: Sequence[Mapping[str, Any]]) -> bool:
    return _holds(condition, score_value(scores, *condition.path)) if condition.path else bool(scores)


def score_value(scores: Sequence[Mapping[str, Any]], name: str) -> float | str | None:
    """Return the value of the first score of a name, or its label if it has no value; ``None`` if there is none."""
    score = next((score for score in scores if score["name"] == name), None)
    return None if score is None else score.get("value", score.get("label"))


def _compared(condition: Condition, kind: Kind, value: Any) -> Any:
    """Return the value of a field in the form in which conditions on that field compare it."""
    match kind:
        case Kind.JSON:
            return value_at(value, condition.path)
        case Kind.SPAN_ID:
            return value + value
        case Kind.TIME if OPERATORS[condition.operator].operand not in (OperandKind.LITERAL, OperandKind.PATTERN):
            return _time_us(value)
        case _:
            return value


def _holds(condition: Condition, value: Any) -> bool:  # noqa: C901, PLR0912 - one case an operator
    """Whether a condition is true of the value at its field and path; ``None`` is absent."""
    if value is None:
        return False
    operand: Any = condition.operand
    match condition.operator:
        case Operator.EXISTS:
            return True
        case Operator.IS:
            return same(value, operand)
        case Operator.IN:
            return _is_in(value, operand, is_all=condition.is_all)
        case Operator.HAS:
            return _has(value, operand)
        case Operator.EQ:
            return _compares(operator.eq, value, operand)
        case Operator.NEQ:
            return _compares(operator.ne, value, operand)
        case Operator.GT:
            return _compares(operator.gt, value, operand)
        case Operator.GTE:
            return _compares(operator.ge, value, operand)
        case Operator.LT:
            return _compares(operator.lt, value, operand)
        case Operator.LTE:
            return _compares(operator.le, value, operand)
        case Operator.BTWN:
            return _compares(operator.ge, value, operand[0]) and _compares(operator.le, value, operand[1])
        case (
            Operator.CONTAINS | Operator.STARTSWITH | Operator.ENDSWITH | Operator.LIKE | Operator.MATCHES
        ) as text_operator:
            text = text_of(value)
            return text is not None and TextSearch.of(text_operator, condition).holds(text)
        case Operator.IS_NOT | Operator.NOT_IN | Operator.HAS_NOT | Operator.NOT_EXISTS:
            raise NotNormalError(condition)
        case _:
            assert_never(condition.operator)


_ID_IN_NAME: Final = re.compile(ID_IN_NAME)


def shorthand_value(name: str, span: Mapping[str, Any]) -> Any:
    """Return the value of a field of ``SHORTHANDS``; ``None`` if the span has none."""
    if name == DURATION:
        end_time = span.get("end_time")
        return None if end_time is None else (_time_us(end_time) - _time_us(span["start_time"])) / 1000
    if name == OPERATION:
        span_name = span.get("span_name")
        return None if span_name is None else _ID_IN_NAME.sub("*", span_name)
    *preferred, last = [value_at(span.get(place.field), place.path) for place in SHORTHANDS[name]]
    return next((value for value in preferred if value is not None and not _is_around_a_scalar(value)), last)


def _is_around_a_scalar(value: Any) -> bool:
    """Whether a value is an object or array with a scalar somewhere in it."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(
        _is_around_a_scalar(member) if isinstance(member, dict | list) else member is not None for member in members
    )


def _time_us(text: str) -> int:
    return parse_time_ns(text) // 1000


def same(stored: Any, wanted: Any) -> bool:
    """Return typed equality: numbers by value, objects by the members of ``wanted``, arrays by its elements in any
    order."""
    if isinstance(wanted, Mapping):
        return isinstance(stored, dict) and all(same(stored.get(name), member) for name, member in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(stored, list) and all(any(same(item, element) for item in stored) for element in wanted)
    if is_number(wanted):
        return is_number(stored) and bool(stored == wanted)
    return type(stored) is type(wanted) and bool(stored == wanted)


def _is_in(value: Any, wanted: list[Any], *, is_all: bool) -> bool:
    if not wanted:
        return False
    stored = value if isinstance(value, list) else [value]
    found = (any(same(item, operand) for item in stored) for operand in wanted)
    return all(found) if is_all else any(found)


def _has(value: Any, wanted: Any) -> bool:
    """Whether an object has a key, or an array an element."""
    if isinstance(value, dict):
        return isinstance(wanted, str) and value.get(wanted) is not None
    return isinstance(value, list) and any(same(element, wanted) for element in value)


def _compares(order: Callable[[Any, Any], bool], value: Any, operand: Any) -> bool:
    """Compare strings by the order of their bytes in UTF-8, which is that of their code points; numbers exactly."""
    if isinstance(operand, str):
        return isinstance(value, str) and order(value, operand)
    number = number_of(value)
    return number is not None and order(number, operand)


def number_of(value: Any) -> float | None:
    """Return the number that a scalar is, or that a string spells as JSON would; ``None`` if it is neither.

    An integer within 64 bits is exact; every other number is a double (infinite past the largest).
    """
    if is_number(value):
        number: float = value
        return number
    if not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        return None
    if len(value) <= INTEGER_CHARS_MAX and value.removeprefix("-").isdecimal():
        integer = int(value)
        if INT64_MIN <= integer <= UINT64_MAX:
            return integer
    return float(value)


def _elements_match(condition: Condition, elements: list[Any]) -> bool:
    """``in``: some element matches one (``all``: each) of the partial elements. An empty array is absent."""
    if condition.operator is Operator.EXISTS:
        return bool(elements)
    partials: Any = condition.operand
    found = (any(_element_matches(element, partial) for element in elements) for partial in partials)
    return bool(partials) and (all(found) if condition.is_all else any(found))


def _element_matches(element: Mapping[str, Any], partial: Mapping[str, Any]) -> bool:
    return all(same(_member_of(element, name), wanted) for name, wanted in partial.items())


def _member_of(element: Mapping[str, Any], name: str) -> Any:
    """A member below ``attributes.`` is one key with its dots; where that is absent, a path of keys."""
    if not name.startswith(BELOW_ATTRIBUTES):
        return element.get(name)
    attributes, key = element.get(ATTRIBUTES) or {}, name.removeprefix(BELOW_ATTRIBUTES)
    value = attributes.get(key)
    if value is None:
        value = attributes
        for segment in key.split("."):
            value = value.get(segment) if isinstance(value, dict) else None
    return value


@lru_cache(_CONTENTS_MAX)
def _content(text: str) -> Content:
    return parse_content(text)


def content_matches(content: Content, span: Mapping[str, Any]) -> bool:
    """Return whether a span has all wanted words and phrases, and no excluded one.

    Words may be in different texts of the span. A phrase is in one text, with any characters but words in between.
    """
    texts = [words_of(text) for text in _texts_of(span)]
    words = {word for text in texts for word in text}
    return (
        words.issuperset(content.words)
        and words.isdisjoint(content.excluded_words)
        and all(_is_in_one(phrase, texts) for phrase in content.phrases)
        and not any(_is_in_one(phrase, texts) for phrase in content.excluded_phrases)
    )


def _is_in_one(phrase: Phrase, texts: Sequence[Phrase]) -> bool:
    wanted = spaced(phrase)
    return any(wanted in spaced(text) for text in texts)


def _texts_of(span: Mapping[str, Any]) -> Iterator[str]:
    """The texts that ``content`` looks at: every text in the attributes, the names of events, every text in their
    attributes and bodies.

    Keys, numbers, booleans and times are not texts.
    """
    yield from _texts_in(span.get("attributes"))
    for event in span.get("events") or ():
        yield event["name"]
        yield from _texts_in(event.get("attributes"))
        yield from _texts_in(event.get("body"))


def _texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value; intake bounds its depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts_in(member)
    elif isinstance(value, list):
        for element in value:
            yield from _texts_in(element)
