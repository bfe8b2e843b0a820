"""From a written filter to its JSON: the one parser, for the explorer, the command line and the tools of MCP alike.

::

    filter     = all, {"or", all}
    all        = member, {"and", member}
    member     = "not", member | "(", filter, ")" | condition
    condition  = field, operator, [value] | trace id | span id | words in quotes

``operator`` is the name of one, or ``= != > >= < <= ~``; ``== <> => =< =~ ≠ ≥ ≤ && || !`` are read as people mean them.
A value reaches to the next ``and``, ``or`` or bracket that closes; in quotes it may contain anything. A dotted name is
a path in the attributes, unless it begins with a field that has paths itself. A text without any condition is a search
for its words.

Pure. The meaning of the result is checked by ``query_api/filter/parse.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from query_api.filter.language import ALLOWED_OPERATORS, FIELDS, OPERATORS, WITHOUT_KEY, Kind, OperandKind, Operator
from query_api.filter.notation.ids import read_id
from query_api.filter.notation.names import FIELD_NAMES, JOINT, SYMBOLS, condition_meant, read_field, similar_field
from query_api.filter.notation.values import (
    CLOSING_BRACKETS,
    CLOSING_QUOTES,
    DOUBLE_QUOTED,
    OPENING_QUOTES,
    QUOTED,
    SINGLE_QUOTED,
    WrongValue,
    read_value,
    unquoted,
)

TEXT_CHARS_MAX: Final = 10_000
DEPTH_MAX: Final = 16
"""Brackets and ``not`` in each other: as many as groups of the JSON."""

JOINTS: Final[Mapping[str, str]] = {"and": "and", "or": "or", "&&": "and", "||": "or"}
TWO_WORDS: Final[Mapping[str, Operator]] = {"is not": Operator.IS_NOT, "not in": Operator.NOT_IN}
_SPACE: Final = re.compile(r"\s*")
_SYMBOL: Final = re.compile(rf"\s*({'|'.join(map(re.escape, sorted(SYMBOLS, key=len, reverse=True)))})")
_NAME_CHAR: Final = rf"[^\s()=!<>~≠≥≤,{OPENING_QUOTES}]"
_NAME: Final = re.compile(rf"{_NAME_CHAR}+")
_WORD: Final = re.compile(r"\s+(is\s+not|not\s+in|[a-z_]+)(?=\s|$|\))", re.IGNORECASE)
_PART: Final = re.compile(
    rf"{DOUBLE_QUOTED}|(?:{SINGLE_QUOTED})(?=[\s,)\]]|$)|\s+|[()]|[^\s(){OPENING_QUOTES}]+|[{OPENING_QUOTES}]",
    re.DOTALL,
)
_NOT: Final = re.compile(r"not(?=[\s()]|$)|!(?!=)", re.IGNORECASE)
# The name holds no separator, so that a value is read once, however many separators it has.
_NEXT_CONDITION: Final = re.compile(rf"[\s,;]((?:(?!;){_NAME_CHAR})+)" + _SYMBOL.pattern)


class WrongFilter(Exception):
    """The text is not a filter. The characters from ``begin`` to ``end`` are why; ``allowed`` could stand there."""

    def __init__(self, message: str, begin: int, end: int, allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.begin = begin
        self.end = end
        self.allowed = tuple(allowed)


class _NoCondition(WrongFilter):
    """What stands here does not look like a condition, so that it may be meant as words."""


@dataclass(frozen=True, slots=True)
class Part:
    """A condition or a group, and where it is written. ``members`` are those of a group."""

    json: dict[str, Any]
    begin: int
    end: int
    members: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A filter that was read.

    ``parts`` must all be true; people see each as one. ``is_id`` is whether the text is an id and nothing else.
    ``searched`` is whether it has no condition, so that its words are searched for; ``hint`` is the condition that may
    have been meant.
    """

    parts: tuple[Part, ...]
    is_id: bool = False
    searched: bool = False
    hint: str | None = None

    @property
    def filtering(self) -> dict[str, Any]:
        """The JSON of the filter."""
        return {"conditions": [part.json for part in self.parts]}

    def place_of(self, path: str) -> Part | None:
        """Return the innermost part at a JSON path such as ``filtering.conditions[1].operator``."""
        members, part = self.parts, None
        for index in map(int, re.findall(r"\.conditions\[(\d+)\]", path)):
            if index >= len(members):
                break
            part = members[index]
            members = part.members
        return part


def read_filter(text: str) -> Written:
    """Return the filter that a text means. Raises ``WrongFilter``."""
    if found := read_id(text.strip()):
        return Written((_is(found, 0, len(text)),), is_id=True)
    try:
        return Written(_Reader(text).whole())
    except _NoCondition:
        if not text.strip() or _has_condition(text):
            raise
        stripped = text.strip()
        begin = text.index(stripped)
        part = _search(stripped, begin, begin + len(stripped))
        return Written((part,), searched=True, hint=condition_meant(stripped))


def _is(found: Mapping[str, str], begin: int, end: int) -> Part:
    return Part({**found, "operator": Operator.IS.value}, begin, end)


def _search(words: str, begin: int, end: int) -> Part:
    return Part({"field": "content", "operator": Operator.CONTAINS.value, "value": words}, begin, end)


def _has_condition(text: str) -> bool:
    """Return whether some part between ``and`` and ``or`` is a condition."""
    for piece in JOINT.split(text)[::2]:
        try:
            _Reader(piece.strip()).whole()
        except _NoCondition:
            continue
        except WrongFilter:
            return True
        return True
    return False


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> tuple[Part, ...]:
        part = self._any(depth=1)
        if self._at < len(self._text):
            raise WrongFilter("This bracket closes none that is open.", self._at, self._at + 1)
        return part.members if part.json.get("operator") == "and" and part.members else (part,)

    def _any(self, *, depth: int) -> Part:
        return self._joined("or", lambda: self._joined("and", lambda: self._member(depth=depth)))

    def _joined(self, joint: str, read: Callable[[], Part]) -> Part:
        parts = [read()]
        while self._take_joint(joint):
            self._skip()
            if self._at == len(self._text):
                raise WrongFilter(f"A condition must follow the last “{joint}”.", self._at, self._at)
            try:
                parts.append(read())
            except _NoCondition as problem:
                hint = f"{problem} A value that contains “{joint}” needs quotes."
                raise _NoCondition(hint, problem.begin, problem.end, problem.allowed) from problem
        if len(parts) == 1:
            return parts[0]
        json = {"operator": joint, "conditions": [part.json for part in parts]}
        return Part(json, parts[0].begin, parts[-1].end, tuple(parts))

    def _take_joint(self, joint: str) -> bool:
        self._skip()
        word = JOINT.match(self._text, self._at)
        if word is None or JOINTS[word[0].lower()] != joint:
            return False
        self._at = word.end()
        return True

    def _member(self, *, depth: int) -> Part:
        self._skip()
        begin = self._at
        if depth > DEPTH_MAX:
            raise WrongFilter(f"At most {DEPTH_MAX} brackets and “not” may be in each other.", begin, begin + 1)
        if joint := JOINT.match(self._text, begin):
            raise _NoCondition(f"No condition stands before “{joint[0]}”.", begin, joint.end(), FIELD_NAMES)
        if negation := _NOT.match(self._text, begin):
            self._at = negation.end()
            inner = self._member(depth=depth + 1)
            return Part({"operator": "not", "conditions": [inner.json]}, begin, inner.end, (inner,))
        if self._text.startswith("(", begin):
            self._at += 1
            inner = self._any(depth=depth + 1)
            self._skip()
            if not self._text.startswith(")", self._at):
                raise WrongFilter("This bracket is not closed.", begin, begin + 1, [")"])
            self._at += 1
            return Part(inner.json, begin, self._at, inner.members)
        return self._condition()

    def _condition(self) -> Part:
        begin = self._at
        if part := self._quoted_words(begin):
            return part
        name = _NAME.match(self._text, begin)
        if name is None:
            raise _NoCondition("A condition begins with a field.", begin, min(begin + 1, len(self._text)), FIELD_NAMES)
        found = read_id(name[0])
        if found is not None and self._is_end(name.end()):
            self._at = name.end()
            return _is(found, begin, name.end())
        field = read_field(name[0])
        operator, end = self._operator(name.end())
        if field is None:
            raise _unknown(name[0], begin, name.end(), operator)
        kind = FIELDS[field["field"]].kind
        if operator is None:
            shown = f"An operator must follow “{name[0]}”."
            raise _NoCondition(shown, name.end(), end, ALLOWED_OPERATORS[kind])
        if kind is Kind.JSON and "key" not in field:
            raise WrongFilter(f"{name[0]} needs a path: {name[0]}.http.status = 500.", begin, name.end())
        if kind is Kind.SCORES and "key" not in field and operator.name not in WITHOUT_KEY:
            shown = f"{name[0]} needs the name of a score: {name[0]}.Relevance > 0.5."
            raise WrongFilter(shown, begin, name.end(), WITHOUT_KEY)
        if operator.name not in ALLOWED_OPERATORS[kind]:
            shown = f"“{operator.name}” is no operator of {name[0]}."
            raise WrongFilter(shown, operator.begin, operator.end, ALLOWED_OPERATORS[kind])
        self._at = operator.end
        json = {**field, "operator": operator.name}
        if OPERATORS[Operator(operator.name)].operand is OperandKind.NOTHING:
            self._nothing_follows(f"{name[0]} {operator.name}")
        else:
            json = {**json, "value": self._value(field["field"], Operator(operator.name), name[0])}
        return Part(json, begin, self._at)

    def _quoted_words(self, begin: int) -> Part | None:
        """Read words in quotes that are a condition of their own: all texts of a span are searched for the phrase."""
        quoted = QUOTED.match(self._text, begin)
        if quoted is None and self._text.startswith(tuple(OPENING_QUOTES), begin):
            raise _unclosed(_NoCondition, self._text[begin], begin)
        if quoted is None or not self._is_end(quoted.end()):
            return None
        try:
            words = unquoted(quoted[0]) or ""
        except WrongValue as exc:
            raise WrongFilter(str(exc), begin, quoted.end()) from exc
        self._at = quoted.end()
        found = read_id(words.strip())
        phrase = words if '"' in words else f'"{words}"'
        return _search(phrase, begin, self._at) if found is None else _is(found, begin, self._at)

    def _is_end(self, at: int) -> bool:
        """Whether the condition that ends here has no operator: a joint, a bracket or nothing follows."""
        space = _SPACE.match(self._text, at)
        after = at if space is None else space.end()
        return after == len(self._text) or self._text[after] == ")" or JOINT.match(self._text, after) is not None

    def _operator(self, at: int) -> tuple[_Operator | None, int]:
        """Return the operator that begins here, and where the text ends that is none."""
        if symbol := _SYMBOL.match(self._text, at):
            return _Operator(SYMBOLS[symbol[1]].value, symbol.start(1), symbol.end(), is_symbol=True), symbol.end()
        word = _WORD.match(self._text, at)
        if word is None:
            return None, len(self._text)
        name = " ".join(word[1].lower().split())
        operator = TWO_WORDS.get(name)
        if operator is not None or name in _OPERATOR_NAMES:
            return _Operator(operator.value if operator else name, word.start(1), word.end()), word.end()
        return None, word.end()

    def _nothing_follows(self, condition: str) -> None:
        self._skip()
        if self._is_end(self._at):
            return
        raise WrongFilter(
            f"“{condition}” takes no value: “and” or “or” may follow.", self._at, len(self._text), ["and", "or"]
        )

    def _value(self, field: str, operator: Operator, name: str) -> Any:
        self._skip()
        begin = self._at
        end = self._end_of_value()
        self._at = end
        if begin == end:
            raise WrongFilter(f"“{name}” needs a value here.", begin, begin)
        self._no_condition_follows(begin, end)
        try:
            return read_value(field, operator, self._text[begin:end])
        except WrongValue as exc:
            raise WrongFilter(str(exc), begin, end, exc.allowed) from exc

    def _no_condition_follows(self, begin: int, end: int) -> None:
        """A value such as ``s-1 cost > 3`` is hardly one: the word between two conditions is missing."""
        quoted, closing = QUOTED.match(self._text, begin), CLOSING_BRACKETS.get(self._text[begin])
        free = quoted.end() if quoted else max(begin, self._text.rfind(closing, begin, end)) if closing else begin
        following = _NEXT_CONDITION.search(self._text, free, end)
        if following is not None and read_field(following[1]) is not None:
            shown = f"“and” or “or” must stand before “{following[1]}”. A value that contains it needs quotes."
            raise WrongFilter(shown, following.start(1), following.end(1), ["and", "or"])

    def _end_of_value(self) -> int:
        """Return where the value ends that begins here: before a joint, or a bracket that is not its own."""
        end, depth, is_free = self._at, 0, True
        for piece in _PART.finditer(self._text, self._at):
            part = piece[0]
            if part.isspace():
                is_free = True
                continue
            if depth == 0 and (part == ")" or (is_free and end > self._at and JOINT.match(self._text, piece.start()))):
                break
            if len(part) == 1 and part in OPENING_QUOTES and is_free:
                raise _unclosed(WrongFilter, part, piece.start())
            depth += (part == "(") - (part == ")")
            end, is_free = piece.end(), False
        return end

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = self._at if space is None else space.end()


@dataclass(frozen=True, slots=True)
class _Operator:
    name: str
    begin: int
    end: int
    is_symbol: bool = False


def _unclosed(kind: type[WrongFilter], quote: str, at: int) -> WrongFilter:
    """Return the error for a quote that is not closed."""
    return kind("This quote is not closed.", at, at + 1, [CLOSING_QUOTES.get(quote, quote)])


def _unknown(name: str, begin: int, end: int, operator: _Operator | None) -> WrongFilter:
    """Return what is wrong with a name that is no field. Without an operator it may be meant as a word."""
    meant = similar_field(name) if operator else condition_meant(name) or similar_field(name)
    help_ = (
        f"Write attributes.{name} for an attribute, scores.{name} for a score."
        if operator
        else f'In quotes, "{name}", it is searched for.'
    )
    shown = f"“{name}” is not a field. {f'Did you mean “{meant}”?' if meant else help_}"
    kind = WrongFilter if operator is not None and operator.is_symbol else _NoCondition
    return kind(shown, begin, end, [meant] if meant else FIELD_NAMES)


_OPERATOR_NAMES: Final = frozenset(operator.value for operator in Operator)
