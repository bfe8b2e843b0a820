"""``content`` as SQL over a row of ``spans``: the meaning of ``query_api/filter/words.py``, asked of the text index.

The column ``content`` (``common/clickhouse/ddl/0001_spans.sql``) has the texts of a span, prepared so that the engine's own
tokenizer finds the same words. Words are answered by the index alone; of a phrase it knows the words, and the texts of the
rows that have them all are read.
"""

from __future__ import annotations

from typing import Final

from query_api.filter.sql.parameters import Parameters
from query_api.filter.words import parse_content, spaced

_WORDS_OF_TEXTS: Final = (
    "arrayStringConcat(arrayMap(text -> concat(' ', arrayStringConcat(tokens(text), ' '), ' '), content))"
)
"""A row's texts, each as ``spaced`` makes it of its words. Two spaces part them and one parts words, so no phrase crosses."""


def content_condition(text: str, parameters: Parameters) -> str:
    """The condition ``content contains`` as an expression that is 0 or 1; ``ValueError`` when the text has no word."""
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
