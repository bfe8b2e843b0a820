"""What the SQL of every condition is made of: parameters, the operators of a subject, and texts.

Every condition is 0 or 1 on every row, never null, so that ``NOT`` is exact.

A typed text is a scalar as one text, its type in one letter and then its value (``common/clickhouse/leaves.py``);
``''`` is the typed text of what is absent, and no comparison is true of it. The same in Python:
``query_api/filter/text_search.py`` and ``matches.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

from common.clickhouse.leaves import EMPTY_ARRAY, EMPTY_OBJECT
from common.clickhouse.span_columns import NO_PARENT
from common.json_values import INT64_MIN, INTEGER_CHARS_MAX, NUMBER_GRAMMAR, UINT64_MAX, is_number
from common.span_version import HAS_ENDED_SQL
from query_api.filter.language import Condition, NotNormalError, Operator
from query_api.filter.text_search import FOLDING, TextSearch, fold, parse_content, spaced

IS_ROOT: Final = f"parent_id = toFixedString(unhex('{NO_PARENT.hex()}'), 16)"
"""A condition on a row of ``spans``: the span has no parent."""


class Parameters:
    """Collects values and returns their placeholders, ``{p1:String}`` and so on. A text or list of texts gets one
    placeholder."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._places: dict[str | tuple[str, ...], str] = {}

    def place(self, kind: str, value: Any) -> str:
        """Add a value and return its placeholder; ``kind`` is a type of the engine."""
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return f"{{{name}:{kind}}}"

    def text(self, value: str) -> str:
        """Return the placeholder of a text."""
        if value not in self._places:
            self._places[value] = self.place("String", value)
        return self._places[value]

    def texts(self, values: list[str]) -> str:
        """Return the placeholder of a list of texts."""
        key = tuple(values)
        if key not in self._places:
            self._places[key] = self.place("Array(String)", values)
        return self._places[key]


Bounds: TypeAlias = Sequence[tuple[str, Any]]
"""Comparison signs of the engine, each with a value; all must hold."""


class Subject:
    """What a condition looks at in a row of ``spans``: a column, or a value inside of one.

    Each method returns an expression that is 0 or 1 on every row, never null, so that ``NOT`` is exact. A subject
    overrides the methods of operators that can be true of it.
    """

    def exists(self) -> str:
        """Whether there is a value."""
        return "0"

    def equals(self, operand: Any) -> str:  # noqa: ARG002
        """Whether the value equals ``operand`` (``matches.same``)."""
        return "0"

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:  # noqa: ARG002
        """Whether the value is one of ``operands``, or is an array that holds one (``is_all``: each) of them."""
        return "0"

    def has(self, operand: Any) -> str:  # noqa: ARG002
        """Whether the value is an object with a key, or an array with an element."""
        return "0"

    def compares(self, bounds: Bounds) -> str:  # noqa: ARG002
        """Whether the value compares with every bound."""
        return "0"

    def reads(self, search: TextSearch) -> str:  # noqa: ARG002
        """Whether the text of the value is what a text operator looks for."""
        return "0"


def condition_sql(condition: Condition, subject: Subject) -> str:  # noqa: C901, PLR0912 - one case an operator
    """Return a condition on a subject as an expression that is 0 or 1."""
    operand: Any = condition.operand
    match condition.operator:
        case Operator.EXISTS:
            return subject.exists()
        case Operator.IS:
            return subject.equals(operand)
        case Operator.IN:
            return subject.is_in(operand, is_all=condition.is_all)
        case Operator.HAS:
            return subject.has(operand)
        case Operator.EQ:
            return subject.compares([("=", operand)])
        case Operator.NEQ:
            return subject.compares([("!=", operand)])
        case Operator.GT:
            return subject.compares([(">", operand)])
        case Operator.GTE:
            return subject.compares([(">=", operand)])
        case Operator.LT:
            return subject.compares([("<", operand)])
        case Operator.LTE:
            return subject.compares([("<=", operand)])
        case Operator.BTWN:
            return subject.compares([(">=", operand[0]), ("<=", operand[1])])
        case (
            Operator.CONTAINS | Operator.STARTSWITH | Operator.ENDSWITH | Operator.LIKE | Operator.MATCHES
        ) as operator:
            return subject.reads(TextSearch.of(operator, condition))
        case Operator.IS_NOT | Operator.NOT_IN | Operator.HAS_NOT | Operator.NOT_EXISTS:
            raise NotNormalError(condition)
        case _:
            assert_never(condition.operator)


LITERAL_PATTERN_MAX: Final = 64
"""Code points of a literal that RE2 searches for."""

_BOOLEANS: Final = {"b1": "true", "b0": "false"}

_SCIENTIFIC: Final = (
    ("e([0-9])", r"e+\\1"),
    ("^(-?)0[.]00000([0-9])", r"\\1\\2.e-6 "),
    ("[.]e-6 ([0-9]+)$", r".\\1e-6"),
    ("[.]e-6 $", "e-6"),
)
"""Patterns of a number as the engine writes it, and their replacements in responses, applied one after the other."""

_WORDS_OF_TEXTS: Final = (
    "arrayStringConcat(arrayMap(text -> concat(' ', arrayStringConcat(tokens(text), ' '), ' '), content))"
)
"""The texts of a row, each as ``spaced`` joins its words. Two spaces separate texts, so no phrase crosses from one to
the next."""


def text_condition(text: str, search: TextSearch, parameters: Parameters) -> str:
    """Return a text operator on ``text``, an expression that is a text on every row.

    RE2 finds a literal without case ten times as fast as folding the text does, unless the literal is long: a text that
    nearly matches costs RE2 the product of both lengths.
    """
    is_literal_pattern = not search.is_case_sensitive and len(search.text) <= LITERAL_PATTERN_MAX
    if search.operator is Operator.LIKE or search.operator is Operator.MATCHES or is_literal_pattern:
        return f"match({text}, {parameters.text(search.pattern())})"
    literal = search.text
    if not search.is_case_sensitive:
        literal = fold(literal)
        text = _folded(text, literal, parameters)
    place = parameters.text(literal)
    if search.is_exact:
        return f"({text} = {place})"
    match search.operator:
        case Operator.CONTAINS:
            return f"(position({text}, {place}) > 0)"
        case Operator.STARTSWITH:
            return f"startsWith({text}, {place})"
        case Operator.ENDSWITH:
            return f"endsWith({text}, {place})"
        case _:
            assert_never(search.operator)


def _folded(text: str, literal: str, parameters: Parameters) -> str:
    """Fold a text far enough to find ``literal`` in it, which is folded itself.

    A code point that folds to one outside of the literal matches nothing in it, folded or not.
    """
    pairs = [(code, folded) for code, folded in FOLDING.items() if chr(folded) in literal]
    if not pairs:
        return f"lower({text})"
    cased, folded = (parameters.text("".join(map(chr, codes))) for codes in zip(*pairs, strict=True))
    return f"translateUTF8(lower({text}), {cased}, {folded})"


def content_condition(text: str, parameters: Parameters) -> str:
    """Return the condition ``content contains``, answered by the text index. Raises ``ValueError`` if the text has no
    word.

    The column ``content`` holds the texts of a span, prepared so that the engine's own tokenizer finds the same words
    (ADR 0008). The index alone answers for words. Of a phrase it knows the words; the texts of the rows that have them
    all are read.
    """
    content = parse_content(text)
    wanted = dict.fromkeys([*content.words, *(word for phrase in content.phrases for word in phrase)])
    clauses = []
    if wanted:
        clauses.append(f"hasAllTokens(content, {parameters.texts(list(wanted))})")
    if content.excluded_words:
        clauses.append(f"NOT hasAnyTokens(content, {parameters.texts(list(content.excluded_words))})")
    if content.phrases:
        phrases = parameters.texts(list(map(spaced, content.phrases)))
        clauses.append(f"arrayAll(phrase -> position({_WORDS_OF_TEXTS}, phrase) > 0, {phrases})")
    if content.excluded_phrases:
        rarest = parameters.texts([max(phrase, key=len) for phrase in content.excluded_phrases])
        phrases = parameters.texts(list(map(spaced, content.excluded_phrases)))
        found = f"arrayExists(phrase -> position({_WORDS_OF_TEXTS}, phrase) > 0, {phrases})"
        clauses.append(f"NOT (hasAnyTokens(content, {rarest}) AND {found})")
    return f"({' AND '.join(clauses)})"


def typed_text_condition(typed: str, search: TextSearch, parameters: Parameters) -> str:
    """Return a text operator on the scalar of a typed text; false of an object, an array and what is absent."""
    found = text_condition(f"substring({typed}, 2)", search, parameters)
    clauses = [f"((startsWith({typed}, 's') OR startsWith({typed}, 'n')) AND {found})"]
    clauses += [f"{typed} = '{letter}'" for letter, word in _BOOLEANS.items() if search.holds(word)]
    return f"({' OR '.join(clauses)})"


def ordered(typed: str, bounds: Bounds, parameters: Parameters) -> str:
    """Compare a typed text with bounds, which are all texts or all numbers."""
    if isinstance(bounds[0][1], str):
        compared = " AND ".join(f"{typed} {sign} {parameters.text('s' + bound)}" for sign, bound in bounds)
        return f"(startsWith({typed}, 's') AND {compared})"
    places = [(sign, number_place(bound, parameters)) for sign, bound in bounds]
    text = f"substring({typed}, 2)"
    integer, double = f"toInt128OrZero({text})", f"toFloat64OrZero({text})"
    is_number = f"match({typed}, '^(?:n|s{NUMBER_GRAMMAR}$)')"
    is_integer = (
        f"length({typed}) <= {INTEGER_CHARS_MAX + 1} AND match({typed}, '^.-?[0-9]+$')"
        f" AND {integer} BETWEEN {INT64_MIN} AND {UINT64_MAX}"
    )
    integer_verdict, double_verdict = (
        " AND ".join(f"{number} {sign} {place}" for sign, place in places) for number in (integer, double)
    )
    return f"multiIf(NOT {is_number}, 0, {is_integer}, {integer_verdict}, {double_verdict})"


def number_place(number: float, parameters: Parameters) -> str:
    """Return the placeholder of a number. The engine compares integers with doubles exactly."""
    return parameters.place("Int128" if isinstance(number, int) else "Float64", number)


def typed_from_json(raw: str) -> str:
    """Return the typed text of a scalar given as JSON text; ``''`` for null, a container, or no JSON.

    A double is written as the engine writes it: compare it with one that the engine has written too.
    """
    return (
        f"multiIf(startsWith({raw}, '\"'), concat('s', JSONExtractString({raw})), "
        f"{raw} = 'true', 'b1', {raw} = 'false', 'b0', "
        f"match({raw}, '^[-0-9]'), concat('n', {raw}), '')"
    )


def scalar_leaf(leaf: str) -> str:
    """Return a leaf as the typed text of a scalar: ``''`` for an empty object or array."""
    return f"if({leaf} IN ('{EMPTY_OBJECT}', '{EMPTY_ARRAY}'), '', {leaf})"


def visible_typed(typed: str) -> str:
    """Return a typed text of ``typed_from_json`` with its number as responses show it."""
    return f"if(startsWith({typed}, 'n'), concat('n', {visible_number(f'substring({typed}, 2)')}), {typed})"


def visible_number(text: str) -> str:
    """Return the text that responses show for a number that the engine has written (``json_values.number_text``).

    They differ where the engine writes digits and responses an exponent, from 2^64 to 1e21 and from 1e-6 to 1e-5; and
    responses write a sign with every exponent.
    """
    for pattern, replacement in _SCIENTIFIC:
        text = f"replaceRegexpOne({text}, '{pattern}', '{replacement}')"
    is_short = "NOT match(number, '^-?[0-9]{19}')"
    in_64_bits = f"toInt128OrZero(number) BETWEEN {INT64_MIN} AND {UINT64_MAX}"
    mantissa = r"replaceRegexpOne(replaceRegexpOne(number, '0+$', ''), '^(-?[0-9])([0-9])', '\\1.\\2')"
    exponent = "toString(length(replaceOne(number, '-', '')) - 1)"
    return let("number", text, f"if({is_short} OR {in_64_bits}, number, concat({mantissa}, 'e+', {exponent}))")


def let(name: str, value: str, body: str) -> str:
    """Return ``body`` with ``value`` bound to ``name``, so that a long value is written once. A lambda keeps the name
    local."""
    return f"arrayMap({name} -> {body}, [{value}])[1]"


def double_text(amount: str) -> str:
    """Return the text that responses show for a double: digits if it is an integer of 64 bits (``spans/rows.py``)."""
    is_integer = f"{amount} = trunc({amount}) AND {amount} >= -pow(2., 63) AND {amount} < pow(2., 64)"
    return f"if({is_integer}, toString(toInt128({amount})), {visible_number(f'toString({amount})')})"


def time_text(column: str) -> str:
    """Return the text that responses show for microseconds since 1970: six digits of fraction, or none
    (``common/times.py``)."""
    seconds = f"formatDateTime(fromUnixTimestamp64Micro({column}, 'UTC'), '%Y-%m-%dT%H:%i:%S')"
    fraction_us = f"{column} % 1000000"
    fraction = f"if({fraction_us} = 0, '', '.' || leftPad(toString({fraction_us}), 6, '0'))"
    return f"({seconds} || {fraction} || 'Z')"


@dataclass(frozen=True, slots=True)
class DoubleValue(Subject):
    """A double that is never absent. ``amount`` is an expression."""

    amount: str
    parameters: Parameters

    def exists(self) -> str:
        return "1"

    def equals(self, operand: Any) -> str:
        return self.compares([("=", operand)])

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:
        numbers = [float(value) for value in operands if is_number(value) and float(value) == value]
        if not numbers or (is_all and (len(numbers) < len(operands) or len(set(numbers)) > 1)):
            return "0"
        return f"has({self.parameters.place('Array(Float64)', numbers)}, {self.amount})"

    def compares(self, bounds: Bounds) -> str:
        if not all(is_number(bound) for _, bound in bounds):
            return "0"
        compared = (f"{self.amount} {sign} {number_place(bound, self.parameters)}" for sign, bound in bounds)
        return f"({' AND '.join(compared)})"

    def reads(self, search: TextSearch) -> str:
        return text_condition(double_text(self.amount), search, self.parameters)


@dataclass(frozen=True, slots=True)
class OfEnded(Subject):
    """A value that only spans that ended have."""

    value: Subject

    def exists(self) -> str:
        return _if_ended(self.value.exists())

    def equals(self, operand: Any) -> str:
        return _if_ended(self.value.equals(operand))

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:
        return _if_ended(self.value.is_in(operands, is_all=is_all))

    def compares(self, bounds: Bounds) -> str:
        return _if_ended(self.value.compares(bounds))

    def reads(self, search: TextSearch) -> str:
        return _if_ended(self.value.reads(search))


def _if_ended(condition: str) -> str:
    if condition in ("0", "1"):
        return condition if condition == "0" else f"({HAS_ENDED_SQL})"
    return f"({HAS_ENDED_SQL} AND {condition})"
