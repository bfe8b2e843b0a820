"""What a statement costs to read: the same statement without its answer, in a format that ends with the engine's statistics.

Both engines count alike there; neither driver hands out the counters that come beside an answer in Arrow.
"""

from __future__ import annotations

from typing import Final

import orjson

WITH_STATISTICS: Final = "JSONCompact"


def reading_only(sql: str, /) -> str:
    """A ``SELECT`` that computes every column of another one and answers with a number.

    Nothing that an earlier run has left in a cache is skipped: what is asked is what the statement reads by itself.
    """
    return f"SELECT count() FROM (\n{sql}\nSETTINGS use_query_condition_cache = 0\n) WHERE NOT ignore(*)"


def rows_of(answer: bytes, /) -> int:
    """The rows that were read for an answer in the format ``WITH_STATISTICS``."""
    return int(orjson.loads(answer)["statistics"]["rows_read"])
