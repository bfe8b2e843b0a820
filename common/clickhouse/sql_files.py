"""Turn a DDL file into statements for one server or a cluster: fill the placeholders, split at semicolons.

Not ``str.format``: the braces of ``{shard}`` and ``{replica}`` are macros of the server.
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
    """Fill the placeholders for one server, or for the cluster of that name."""
    placeholders = REPLICATED | {"{on_cluster}": f" ON CLUSTER `{cluster}`"} if cluster else ONE_SERVER
    return re.sub("|".join(map(re.escape, placeholders)), lambda match: placeholders[match[0]], text)


def statements(text: str, /) -> list[str]:
    """Return the statements of a file; a statement ends with a semicolon at the end of its line."""
    return [part.strip() for part in re.split(r";[ \t]*$", text, flags=re.MULTILINE) if part.strip()]
