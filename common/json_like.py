"""Text that is like JSON: the values in it are found by their keys, also where no parser reads it.

Real writers produce ``1e999``, half surrogate pairs, a byte order mark, several documents in lines, the ``repr`` of
Python, JSON that was cut off, and JSON in the middle of other text. All of it is read by its tokens: a key is a quoted
text before a colon, in brackets also a word before ``:`` or ``=``, or the first of two in ``[('key', 1)]``. Its value
goes up to the comma or bracket that ends it, or to the end of the text. Time is linear.

Pure. What becomes of values is up to an ``Editor``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Protocol

from common.json_tokens import Token, Tokens, quoted
from common.json_values import parsed_json

PATH_LENGTH_MAX: Final = 4_096
"""Each value repeats the path to it, so that a long key would take the square of its length."""

_QUOTE: Final = re.compile(r"""\w{0,2}(\\*["'])""")
_OPENER_OF: Final = {"]": "[", "}": "{", ")": "("}


class Gone:
    """Stands for a value that is removed."""


GONE: Final = Gone()


class Editor(Protocol):
    """Says what becomes of keys and values. Paths are dotted, with positions of arrays."""

    def replaces_whole(self, path: str, /) -> bool:
        """Return whether the value at a path is replaced as a whole."""
        ...

    def replacement_of(self, path: str, value: Any, /) -> Any:
        """Return the text in place of such a value, or ``GONE``. What cannot be parsed is given as its text."""
        ...

    def too_deep(self) -> str:
        """Return the text in place of what is too deep."""
        ...

    def edited_text(self, path: str, text: str, /) -> Any:
        """Return what becomes of a quoted text, a number or a word at a path: the same, another text, or ``GONE``."""
        ...

    def edited_key(self, path: str, key: str, /) -> Any:
        """Return the key in place of the last one of a path, or ``GONE``, with its value."""
        ...


def edited(text: str, path: str, editor: Editor, *, levels_max: int) -> Any:
    """Return a text as the editor wants it, the same object if it changes nothing. ``path`` is that of the text.

    What is nested deeper than ``levels_max``, or below a path of more than ``PATH_LENGTH_MAX`` characters, is replaced
    as a whole.
    """
    return _Editing(text, path, editor, levels_max).result()


class _Frame:
    """A bracket that is open, or the whole text. ``member`` is the path of the value after a key, ``begin`` where its
    key begins, or the value if it has none, and ``comma`` the last comma before.
    """

    def __init__(self, kind: str, path: str) -> None:
        self.kind = kind
        self.path = path
        self.index = 0
        self.comma: int | None = None
        self.next()

    def next(self) -> None:
        """Begin a member."""
        self.begin: int | None = None
        self.member: str | None = None
        self.is_begun = False

    def below(self, key: str) -> str:
        """Return the path of a key."""
        return f"{self.path}.{key}" if self.path else key

    @property
    def value_path(self) -> str:
        """The path of a value that stands here."""
        if self.member is not None:
            return self.member
        return self.below(str(self.index)) if self.kind == "[" else self.path


class _Why(Enum):
    MASKED = "masked"
    TOO_DEEP = "too deep"
    GONE = "gone"


class _Replacing:
    """A value that is replaced: up to a comma or bracket at its ``depth``.

    ``start`` is ``None`` before its first token. ``quote`` is that of its key.
    """

    def __init__(self, kind: _Why, stack: Sequence[_Frame], path: str = "", quote: str = '"') -> None:
        self.kind = kind
        self.depth = len(stack)
        self.path = path
        self.quote = quote
        self.start: int | None = None
        self.begin = stack[-1].begin or 0
        self.comma = stack[-1].comma


class _Editing:
    def __init__(self, text: str, path: str, editor: Editor, levels_max: int) -> None:
        self._text = text
        self._tokens = Tokens(text)
        self._editor = editor
        self._levels_max = levels_max
        self._stack = [_Frame("", path)]
        self._open: Counter[str] = Counter()
        self._key: Token | None = None
        """The last token, if it may be a key."""

        self._replacing: _Replacing | None = None
        self._is_broken = False
        """Whether brackets or quotes do not fit: then keys may stand less deep than they seem to."""

        self._is_gone = False
        self._edits: list[tuple[int, int, str]] = []

    def result(self) -> Any:
        """Read all tokens; return the edited text."""
        handlers = {"open": self._opened, "close": self._closed, "comma": self._comma, "colon": self._colon}
        while (token := self._tokens.next(trusts_quote=self._waits_for_value)) is not None:
            handlers.get(token.kind, self._scalar)(token)
        if self._replacing is not None:
            self._end(self._replacing, len(self._text))
        if self._is_gone:
            return GONE
        if not self._edits:
            return self._text
        pieces: list[str] = []
        at = 0
        for start, end, piece in self._edits:
            pieces += self._text[at:start], piece
            at = end
        return "".join([*pieces, self._text[at:]])

    @property
    def _waits_for_value(self) -> bool:
        return self._replacing is not None and self._replacing.start is None

    def _opened(self, token: Token) -> None:
        self._key = None
        frame = self._stack[-1]
        self._begin_value(frame, token)
        if self._replacing is None and len(self._stack) > self._levels_max:
            self._replacing = _Replacing(_Why.TOO_DEEP, self._stack)
            self._replacing.start = token.start
        kind = self._text[token.start]
        # What is replaced as a whole needs no paths: thousands of brackets would each have a longer one.
        self._stack.append(_Frame(kind, frame.path if self._replacing is not None else frame.value_path))
        self._open[kind] += 1

    def _closed(self, token: Token) -> None:
        self._key = None
        kind = _OPENER_OF[self._text[token.start]]
        fits = self._open[kind] > 0
        if self._stack[-1].kind != kind:
            self._is_broken = True
        depth = len(self._stack)
        replacing = self._replacing
        if fits:
            depth = next(at for at in range(depth - 1, 0, -1) if self._stack[at].kind == kind)
        if replacing is not None and (depth < replacing.depth or (not fits and depth == replacing.depth)):
            self._end(replacing, token.start)
        while len(self._stack) > depth:
            self._open[self._stack.pop().kind] -= 1
        if len(self._stack) == 1:
            self._stack[0].next()

    def _comma(self, token: Token) -> None:
        key, self._key = self._key, None
        frame = self._stack[-1]
        if self._replacing is not None and len(self._stack) <= self._replacing.depth:
            self._end(self._replacing, token.start, after_comma=token.end)
        first = None if key is None or frame.index or frame.member is not None else key
        frame.index += 1
        frame.comma = token.start
        frame.next()
        if first is not None and first.quote and self._replacing is None and self._is_pair(frame):
            self._begin_member(first, self._tokens.content(first), self._stack[-2])

    def _is_pair(self, frame: _Frame) -> bool:
        """Return whether a bracket may hold key and value, as in the ``repr`` of an ``OrderedDict``."""
        return frame.kind == "(" and self._stack[-2].kind == "["

    def _colon(self, _: Token) -> None:
        key, self._key = self._key, None
        frame = self._stack[-1]
        if self._replacing is not None or key is None:
            return
        if key.quote:
            self._begin_member(key, self._tokens.content(key), frame)
        elif frame.kind and frame.member is None:
            self._begin_member(key, self._text[key.start : key.end].split()[-1], frame)

    def _begin_member(self, key: Token, content: str, parent: _Frame) -> None:
        """Note the key of a member; ``parent`` is the bracket to whose path it belongs."""
        frame = self._stack[-1]
        is_first = frame.member is None
        if not is_first:  # what is between two keys is missing
            self._is_broken = True
        else:
            frame.begin = key.start
        if len(parent.path) + len(content) > PATH_LENGTH_MAX:
            frame.member, frame.is_begun = parent.path, True
            self._replacing = _Replacing(_Why.TOO_DEEP, self._stack, quote=key.quote or '"')
            return
        frame.member, frame.is_begun = parent.below(content), True
        paths = (frame.member, self._stack[0].below(content)) if self._is_broken else (frame.member,)
        masked = next((path for path in paths if self._editor.replaces_whole(path)), None)
        if masked is not None:
            self._replacing = _Replacing(_Why.MASKED, self._stack, masked, key.quote or '"')
        elif key.quote and is_first:
            self._write(key, content, self._editor.edited_key(frame.member, content))

    def _scalar(self, token: Token) -> None:
        """Read a quoted text, or what stands between other tokens."""
        raw = self._text[token.start : token.end]
        if not raw.strip():
            return
        frame, self._key = self._stack[-1], token
        if not token.quote and raw.endswith(('"', "'")):
            self._is_broken = True
        if token.is_key and frame.member is None and self._replacing is None:
            return
        self._begin_value(frame, token)
        if self._replacing is not None:
            return
        if token.quote:
            content = self._tokens.content(token)
            self._write(token, content, self._editor.edited_text(frame.value_path, content))
        elif frame.member is not None or frame.kind == "[":
            start = token.start + len(raw) - len(raw.lstrip())
            word = Token("bare", start, start + len(raw.strip()))
            self._write(word, raw.strip(), self._editor.edited_text(frame.value_path, raw.strip()))

    def _begin_value(self, frame: _Frame, token: Token) -> None:
        """Note the first token of a value, and whether it is replaced as a whole."""
        if self._replacing is None and not frame.is_begun:
            frame.begin, frame.is_begun = token.start, True
            if frame.kind == "[" and self._editor.replaces_whole(frame.value_path):
                self._replacing = _Replacing(_Why.MASKED, self._stack, frame.value_path)
        if self._replacing is not None and self._replacing.start is None:
            text = self._text[token.start : token.end]
            self._replacing.start = token.start + len(text) - len(text.lstrip())

    def _write(self, token: Token, content: str, wanted: Any) -> None:
        """Put another content into the place of a token; if it is gone, take its member away."""
        if wanted is GONE and len(self._stack) == 1:
            self._is_gone = True
        elif wanted is GONE:
            self._replacing = _Replacing(_Why.GONE, self._stack)
            self._replacing.start = self._replacing.begin
        elif wanted != content:
            self._replace(token.start, token.end, _shown(wanted, token))

    def _end(self, replacing: _Replacing, end: int, *, after_comma: int | None = None) -> None:
        self._replacing = None
        start = end if replacing.start is None else replacing.start
        raw = self._text[start:end].rstrip()
        wanted: Any = GONE
        if replacing.kind is _Why.TOO_DEEP:
            wanted = self._editor.too_deep()
        elif replacing.kind is _Why.MASKED and raw:
            wanted = self._editor.replacement_of(replacing.path, _value_of(raw))
        elif replacing.kind is _Why.MASKED:
            return
        if wanted is not GONE:
            found = _QUOTE.match(raw)
            quote = replacing.quote if found is None else found[1]
            kind = "escaped" if len(quote) > 1 else "string"
            self._replace(start, start + len(raw), _shown(wanted, Token(kind, 0, 0, quote)))
        elif replacing.comma is not None:
            self._replace(replacing.comma, end, "")
        else:
            self._replace(replacing.begin, end if after_comma is None else after_comma, "")

    def _replace(self, start: int, end: int, piece: str) -> None:
        while self._edits and self._edits[-1][0] >= start:
            self._edits.pop()
        if self._edits:
            start = max(start, self._edits[-1][1])
        self._edits.append((start, end, piece))


def _value_of(raw: str) -> Any:
    """Return the value of a text that stands in the place of one: parsed, without its quotes, or as it stands there."""
    try:
        return parsed_json(raw)
    except ValueError:
        tokens = Tokens(raw)
        token = tokens.next(trusts_quote=True)
        return tokens.content(token) if token is not None and token.quote and token.end == len(raw) else raw


def _shown(text: str, place: Token) -> str:
    """Return a text as it stands in the place of a token."""
    quote = place.quote or '"'
    inner = text if place.kind == "escaped" else quoted(text, quote)
    return quote + inner + ("" if place.is_cut else quote)
