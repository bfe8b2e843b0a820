"""The text of a DDL file as statements for one engine: places filled, split at semicolons.

Not ``str.format``: the braces of ``{shard}`` and ``{replica}`` belong to the server's own macros.
"""

from __future__ import annotations

import re
from typing import Final

REPLICATED: Final = {
    "{replicated}": "Replicated",
    "{replica_arguments}": "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}', ",
    "{dedup_window_setting}": "replicated_deduplication_window",
}
ONE_SERVER: Final = {
    "{on_cluster}": "",
    "{replicated}": "",
    "{replica_arguments}": "",
    "{dedup_window_setting}": "non_replicated_deduplication_window",
}


def render(text: str, /, *, cluster: str) -> str:
    """The DDL for one server, or for the cluster of that name."""
    places = REPLICATED | {"{on_cluster}": f" ON CLUSTER `{cluster}`"} if cluster else ONE_SERVER
    return re.sub("|".join(re.escape(place) for place in places), lambda match: places[match[0]], text)


def statements(text: str, /) -> list[str]:
    """The statements of a file; each ends with a semicolon at the end of its line."""
    return [part.strip() for part in re.split(r";[ \t]*$", text, flags=re.MULTILINE) if part.strip()]
