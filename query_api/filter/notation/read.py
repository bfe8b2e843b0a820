"""From a written filter to its JSON: the one parser, for the explorer, the command line and the tools of MCP alike.

::

    filter     = all, {"or", all}
    all        = member, {"and", member}
    member     = "not", member | "(", filter, ")" | condition
    condition  = field, operator, [value] | trace id | span id

``operator`` is the name of one, or ``= != > >= < <= ~``; ``== <> => =< =~ && ||`` are read as people mean them. A value
reaches to the next ``and``, ``or`` or bracket that closes; in quotes it may contain anything. A dotted name is a path
in the attributes, unless it begins with a field that has paths itself. A text without any condition is a search for its
words.

Pure. The meaning of the result is checked by ``query_api/filter/parse.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from common.span import RUNNING
from query_api.filter.language import (
    ALLOWED_OPERATORS,
    ATTRIBUTES,
    FIELDS,
    OPERATORS,
    SCORES,
    STATE,
    WITHOUT_KEY,
    Kind,
    OperandKind,
    Operator,
)
from query_api.filter.notation.values import WrongValue, read_value

TEXT_CHARS_MAX: Final = 10_000
DEPTH_MAX: Final = 16
"""Brackets and ``not`` in each other: as many as groups of the JSON."""

SYMBOLS: Final[Mapping[str, Operator]] = {
    "=": Operator.IS,
    "!=": Operator.IS_NOT,
    ">": Operator.GT,
    ">=": Operator.GTE,
    "<": Operator.LT,
    "<=": Operator.LTE,
    "~": Operator.MATCHES,
    "==": Operator.IS,
    "<>": Operator.IS_NOT,
    "=>": Operator.GTE,
    "=<": Operator.LTE,
    "=~": Operator.MATCHES,
}
JOINTS: Final[Mapping[str, str]] = {"and": "and", "or": "or", "&&": "and", "||": "or"}
TWO_WORDS: Final[Mapping[str, Operator]] = {"is not": Operator.IS_NOT, "not in": Operator.NOT_IN}
NAMES: Final[Mapping[str, str]] = {
    "type": "span_type",
    "status": "status_code",
    "name": "span_name",
    "kind": "span_kind",
    "text": "content",
    "tool": "attributes.ag.meta.tool.name",
    "trace": "trace_id",
    "span": "span_id",
}
"""Short names of fields."""

MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("failed", "failure", "failures", "error", "errors"), "status = error"),
    **dict.fromkeys(("ok", "success", "successful"), "status = ok"),
    RUNNING: f"{STATE} = {RUNNING}",
}
"""Word that stands alone → the condition that may have been meant."""

_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"""[^\s()=!<>~"',]+""")
_SYMBOL: Final = re.compile(r"\s*(!=|<>|==|=>|=<|=~|>=|<=|=|>|<|~)")
_WORD: Final = re.compile(r"\s+(is\s+not|not\s+in|[a-z_]+)(?=\s|$|\))", re.IGNORECASE)
_PART: Final = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'[^']*'(?=[\s,)\]]|$)|\s+|[()]|[^\s()\"']+|[\"']", re.DOTALL)
_JOINT: Final = re.compile(r"(and|or)(?=[\s(]|$)|&&|\|\|", re.IGNORECASE)
_NOT: Final = re.compile(r"not(?=[\s(])", re.IGNORECASE)
# The name holds no separator, so that a value is read once, however many separators it has.
_NEXT_CONDITION: Final = re.compile(r"""[\s,;]([^\s()=!<>~"',;]+)""" + _SYMBOL.pattern)
_PATH: Final = re.compile(r"[^\W\d][\w-]*(\.[\w-]+)+")
_TRACE_ID: Final = re.compile(r"(0x)?([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_SPAN_ID: Final = re.compile(r"(0x)?[0-9a-f]{16}", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://\S+/traces/([0-9a-f]{32})(?:\?(?:\S*&)?span=([0-9a-f]{16})\b\S*|[?#]\S*)?")
"""Of a trace in the explorer, or of a span in it."""


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

    ``parts`` must all be true; people see each as one. ``searched`` is whether the text has no condition, so that its
    words are searched for; ``hint`` is the condition that may have been meant.
    """

    parts: tuple[Part, ...]
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
    if address := _ADDRESS.fullmatch(text.strip()):
        field, value = ("span_id", address[2]) if address[2] else ("trace_id", address[1])
        return Written((Part({"field": field, "operator": Operator.IS.value, "value": value}, 0, len(text)),))
    try:
        return Written(_Reader(text).whole())
    except _NoCondition:
        if not text.strip() or _has_condition(text):
            raise
        stripped = text.strip()
        begin = text.index(stripped)
        content = {"field": "content", "operator": Operator.CONTAINS.value, "value": stripped}
        part = Part(content, begin, begin + len(stripped))
        return Written((part,), searched=True, hint=_hint(stripped))


def read_field(name: str) -> dict[str, str] | None:
    """Return ``field``, and ``key`` if the name is a path; ``None`` if it is neither a field nor a path."""
    full = NAMES.get(name, name)
    first, _, path = full.partition(".")
    if full in FIELDS:
        return {"field": full}
    kind = FIELDS[first].kind if first in FIELDS else None
    if kind is Kind.JSON or kind is Kind.SCORES:
        return {"field": first, "key": path} if path else None
    return {"field": ATTRIBUTES, "key": full} if _PATH.fullmatch(full) and kind is not Kind.ELEMENTS else None


def read_score(name: str) -> dict[str, str] | None:
    """Return ``field`` and ``key`` if the name is that of a score, such as ``scores.Relevance``; else ``None``."""
    field = read_field(name)
    return field if field is not None and field["field"] == SCORES and "key" in field else None


def _has_condition(text: str) -> bool:
    """Return whether some part between ``and`` and ``or`` is a condition."""
    for piece in re.split(r"(?i)(?:^|\s)(?:and|or|&&|\|\|)(?=\s|$)", text):
        try:
            _Reader(piece.strip()).whole()
        except _NoCondition:
            continue
        except WrongFilter:
            return True
        return True
    return False


def _hint(text: str) -> str | None:
    """Return the condition that words may have been meant as: ``session s-1`` as ``session = s-1``."""
    if meant := MEANT.get(text.lower()):
        return meant
    first, _, rest = text.partition(" ")
    name = first.rstrip(":")
    close = [name] if read_field(name) else get_close_matches(name.lower(), [*FIELDS, *NAMES], n=1, cutoff=0.8)
    if not close or not rest.strip():
        return None
    word, _, value = rest.strip().partition(" ")
    if word in OPERATORS or word in SYMBOLS:
        return f"{close[0]} {word} {value}".strip()
    return f"{close[0]} = {rest.strip()}"


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
        word = _JOINT.match(self._text, self._at)
        if word is None or JOINTS[word[0].lower()] != joint:
            return False
        self._at = word.end()
        return True

    def _member(self, *, depth: int) -> Part:
        self._skip()
        begin = self._at
        if depth > DEPTH_MAX:
            raise WrongFilter(f"At most {DEPTH_MAX} brackets and “not” may be in each other.", begin, begin + 1)
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
        name = _NAME.match(self._text, begin)
        if name is None:
            raise _NoCondition("A condition begins with a field.", begin, min(begin + 1, len(self._text)), _FIELD_NAMES)
        if part := self._pasted_id(name[0], begin, name.end()):
            return part
        field = read_field(name[0])
        operator, end = self._operator(name.end())
        if field is None:
            raise self._unknown(name[0], begin, name.end(), is_meant=operator is not None and operator.is_symbol)
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

    def _pasted_id(self, name: str, begin: int, end: int) -> Part | None:
        field = "trace_id" if _TRACE_ID.fullmatch(name) else "span_id" if _SPAN_ID.fullmatch(name) else None
        following = _SPACE.match(self._text, end)
        after = end if following is None else following.end()
        is_alone = after == len(self._text) or self._text[after] == ")" or _JOINT.match(self._text, after) is not None
        if field is None or not is_alone:
            return None
        self._at = end
        return Part({"field": field, "operator": Operator.IS.value, "value": name}, begin, end)

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

    def _unknown(self, name: str, begin: int, end: int, *, is_meant: bool) -> WrongFilter:
        close = get_close_matches(name.lower(), _FIELD_NAMES, n=1)
        meant = f" Did you mean “{close[0]}”?" if close else f" An attribute of this name is attributes.{name}."
        kind = WrongFilter if is_meant else _NoCondition
        return kind(f"“{name}” is not a field.{meant}", begin, end, close or _FIELD_NAMES)

    def _nothing_follows(self, condition: str) -> None:
        self._skip()
        if self._at == len(self._text) or self._text[self._at] == ")" or _JOINT.match(self._text, self._at):
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
        if self._text[begin] in "\"'[(":
            return
        following = _NEXT_CONDITION.search(self._text, begin, end)
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
            if depth == 0 and (part == ")" or (is_free and end > self._at and _JOINT.match(self._text, piece.start()))):
                break
            if part in ('"', "'") and is_free and part == '"':
                raise WrongFilter("This quote is not closed.", piece.start(), piece.end(), ['"'])
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


_FIELD_NAMES: Final = (*NAMES, *FIELDS)
_OPERATOR_NAMES: Final = frozenset(operator.value for operator in Operator)
