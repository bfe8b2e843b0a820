"""What is asked of the index of ``references`` before their JSON is read (``common/clickhouse/ddl/0001_spans.sql``).

The index holds whatever stands between two quotes of the JSON, so every text in it as a whole: ids, slugs, versions, keys. Which
member has a text it does not know; that is for the condition behind it (``element_conditions.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from query_api.filter.sql.parameters import Parameters

REFERENCES: Final = "references"

ASKED_MAX: Final = 1_000
"""So many texts are looked up: 10 ms in a part. Ten thousand take longer than reading the JSON of a usual window."""

_MOST_TELLING: Final = ("id", "slug", "version")
"""Members of a reference, the one that fewest spans share first; any other is said of most spans."""

_TOKENIZER: Final = r"""'splitByString([\'"\'])'"""
"""That of the index. Said wherever it is asked: the engine knows it by itself only where it uses the index."""


def references_guard(partials: Sequence[Mapping[str, Any]], parameters: Parameters) -> str | None:
    """A condition that holds wherever one of the partial elements is, and that the index answers; ``None`` if there is none."""
    if len(partials) == 1:
        texts = [text for value in partials[0].values() if (text := _as_indexed(value)) is not None]
        return _asked("hasAllTokens", texts, parameters)
    texts_of_each = [_most_telling(partial) for partial in partials]
    known = [text for text in texts_of_each if text is not None]
    return _asked("hasAnyTokens", known, parameters) if len(known) == len(partials) else None


def _asked(function: str, texts: Sequence[str], parameters: Parameters) -> str | None:
    distinct = list(dict.fromkeys(texts))
    if not 0 < len(distinct) <= ASKED_MAX:
        return None
    return f"{function}({REFERENCES}, {parameters.texts(distinct)}, {_TOKENIZER})"


def _most_telling(partial: Mapping[str, Any]) -> str | None:
    names = [*(name for name in _MOST_TELLING if name in partial), *partial]
    return next((text for name in names if (text := _as_indexed(partial[name])) is not None), None)


def _as_indexed(value: Any) -> str | None:
    """A text as the index has it; ``None`` for what it has not: other values, nothing, and what a quote cuts."""
    if not isinstance(value, str) or not value or '"' in value:
        return None
    return orjson.dumps(value)[1:-1].decode()
