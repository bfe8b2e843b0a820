"""Text that may be JSON: what tells it, and the tokens of text that cannot be parsed. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from common.json_values import parsed_json

JSON_STARTS: Final = frozenset('{[" \t\r\n\ufeff')
"""First characters of texts that may be JSON."""

_BEGINS: Final = frozenset('{["')
_APOSTROPHE: Final = r"""(?<=\w)(?<!\b[bBrRuUfF])(?<!\b[bBrR][bBrR])'"""
"""A quote right after a word, such as in `O'Brien`; in Python's ``b'text'`` the word is a prefix."""

_TOKEN: Final = re.compile(
    rf"""(?P<string>"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|(?!{_APOSTROPHE})'(?:[^'\\]++|\\.)*+(?:'|\\?\Z))"""
    r"""|(?P<escaped>\\++["'])"""
    r"""|(?P<open>[\[{(])|(?P<close>[\]})])|(?P<comma>,)|(?P<colon>:|=>?+)"""
    rf"""|(?P<bare>(?:[^"'\\\[\]{{}}(),:=]|{_APOSTROPHE})++|\\++)""",
    re.DOTALL,
)
_QUOTED_KEY: Final = re.compile(r"""["']\s*+(?::|=>)""")
_BRACKET_KEY: Final = re.compile(r"""[(\[,]\s*+[^\s"'\\\[\]{}(),:=]++\s*+[:=](?!//)|\[\s*+\(""")
"""A word, or a pair, that may be a key in brackets; a URL is none."""

_FOLLOWS: Final = re.compile(r"\s*+(?:\Z|(?P<colon>:|=>)|[,\]})])")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CHARACTERS_COUNT: Final = 0x110000
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def may_hold_keys(text: str) -> bool:
    """Return whether a text may be JSON, or hold something like it; without these signs it has no key."""
    return (
        text[:1] in JSON_STARTS
        or "{" in text
        or "}" in text
        or "='" in text
        or '="' in text
        or _QUOTED_KEY.search(text) is not None
        or (("(" in text or "[" in text) and _BRACKET_KEY.search(text) is not None)
    )


def json_in(text: str) -> Any:
    """Return the object, array or text that a text is as JSON; ``None`` if it is none or empty."""
    begin = text[:1]
    if begin not in _BEGINS:
        begin = text.lstrip()[:1]
    if not begin or begin not in _BEGINS or len(text) < 2:
        return None
    try:
        return parsed_json(text) or None
    except ValueError:
        return None


def repeats_keys(text: str) -> bool:
    """Return whether an object of a JSON text may have a key twice, of which a parser returns the last one."""
    try:
        json.loads(text, object_pairs_hook=_check_once, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return True
    return False


def _check_once(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is repeated")


class Token(NamedTuple):
    """A part of a text: ``kind`` is ``open``, ``close``, ``comma``, ``colon``, ``bare``, ``string`` or ``escaped``.

    ``escaped`` is a quoted text with backslashes before its quotes: a part of JSON inside of a text.
    """

    kind: str
    start: int
    end: int
    quote: str = ""
    """What a quoted text begins with, and ends with unless it ``is_cut`` off."""

    is_key: bool = False
    """Whether a colon follows a quoted text."""

    is_cut: bool = False


class Tokens:
    """The tokens of a text, from its begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0

    def next(self, *, trusts_quote: bool = False) -> Token | None:
        """Return the next token, ``None`` at the end.

        A quote begins a quoted text if the end, a colon, a comma or a bracket follows that. If not, it is an apostrophe
        or the end of what was missed, and so a token of its own, unless ``trusts_quote``.
        """
        found = _TOKEN.match(self.text, self._at)
        if found is None:
            return None
        kind, start, end = str(found.lastgroup), found.start(), found.end()
        if kind in ("string", "escaped"):
            token = self._string(start, end) if kind == "string" else self._escaped(start, end)
            follows = _FOLLOWS.match(self.text, token.end)
            if follows is not None and not (token.is_cut and kind == "escaped"):
                token = token._replace(is_key=follows["colon"] is not None)
            elif not trusts_quote:
                token = Token("bare", start, start + len(token.quote))
        else:
            token = Token(kind, start, end)
        self._at = token.end
        return token

    def content(self, token: Token) -> str:
        """Return the text of a quoted text; that of an ``escaped`` one is as it stands there."""
        start = token.start + len(token.quote)
        raw = self.text[start : token.end if token.is_cut else token.end - len(token.quote)]
        return raw if token.kind == "escaped" else unescaped(raw)

    def _string(self, start: int, end: int) -> Token:
        quote = self.text[start]
        is_cut = end - start < 2 or self.text[end - 1] != quote
        if not is_cut and end == len(self.text):  # an escaped quote at the end of the text ends nothing
            is_cut = self._backslashes_before(end - 1) % 2 == 1
        return Token("string", start, end, quote, is_cut=is_cut)

    def _backslashes_before(self, at: int) -> int:
        begin = at
        while begin and self.text[begin - 1] == "\\":
            begin -= 1
        return at - begin

    def _escaped(self, start: int, end: int) -> Token:
        quote = self.text[start:end]
        closing = self.text.find(quote, end)
        while closing > 0 and self._backslashes_before(closing) % (2 * len(quote)):  # an escaped backslash takes these
            closing = self.text.find(quote, closing + len(quote))
        is_cut = closing < 0
        return Token("escaped", start, len(self.text) if is_cut else closing + len(quote), quote, is_cut=is_cut)


def texts_in(text: str) -> Iterator[str]:
    """Yield the content of each quoted text, and what stands between other tokens."""
    tokens = Tokens(text)
    while (token := tokens.next()) is not None:
        if token.quote:
            yield tokens.content(token)
        elif token.kind == "bare" and (word := text[token.start : token.end].strip()):
            yield word


def unescaped(raw: str) -> str:
    """Return a text without the escapes of JSON and of Python. Half a surrogate pair becomes U+FFFD."""
    if "\\" not in raw:
        return raw
    text = _ESCAPE.sub(_character, raw)
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        return _CONTROLS.get(found[4], found[4])
    return chr(number) if (number := int(code, 16)) < _CHARACTERS_COUNT else "\ufffd"


def quoted(text: str, quote: str) -> str:
    """Return the inner part of a quoted text with this content."""
    inner = orjson.dumps(text).decode()[1:-1]
    return inner if quote == '"' else inner.replace('\\"', '"').replace("'", "\\'")
