"""Unicode simple case folding, code point by code point: what "without case" means for words (contract §3.2).

The mappings of status C and S in Unicode's ``CaseFolding.txt``, made from what Python knows: a full folding that is one code
point is the simple one too, and where it is several, lower case is, if that is one. The other interpreter of the same
table is the column ``content`` (``common/clickhouse/ddl/0001_spans.sql``), which holds it as two texts; a test keeps the
two the same. RE2's ``(?i)`` folds by these pairs as well.
"""

from __future__ import annotations

from typing import Final

_CASED_END: Final = 0x1E944
"""Behind the last letter that has a case in the tables of this Python."""


def _simple(character: str) -> str:
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return folded
    return character  # U+0130 alone: it folds to two, and stays


FOLDING: Final = {
    ord(character): ord(_simple(character))
    for character in map(chr, range(0x80, _CASED_END))
    if character.casefold() != character and _simple(character) != character
}
"""Code points beyond ASCII that fold to another one."""

_WITH_ASCII: Final = FOLDING | {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def fold(text: str) -> str:
    """The text with every code point folded; as many code points as before."""
    return text.lower() if text.isascii() else text.translate(_WITH_ASCII)
