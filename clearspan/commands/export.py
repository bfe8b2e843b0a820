"""``clearspan export``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from clearspan.commands.options import add_command, add_json, add_server, add_window, gather

DESCRIPTION: Final = """\
Write all spans of a query to a file, newest first, each once. An export that was interrupted, whatever by, goes on when
it is run again with the same options; the file is then the same as without the interruption. FILE appears when it is
complete, with its SHA-256 in FILE.sha256. Until then there are FILE.partial and FILE.partial.json.
"""
EXAMPLES: Final = """\
examples
  clearspan export spans.jsonl
  clearspan export spans.parquet --oldest 2026-01-01 --newest 2026-02-01
  clearspan export failed.csv --last 7d --filter '{"field": "status_code", "value": "STATUS_CODE_ERROR"}'
  clearspan export costs.csv --columns trace_id,start_time,model,cost,session
  clearspan export saved.jsonl --query failed-answers

check a file
  sha256sum --check spans.parquet.sha256

The format follows from the ending of FILE, or from --format. docs/export.md lists the columns.
"""


class ExportOptions(NamedTuple):
    """Which spans to write, and how."""

    file: Path
    export_format: str | None = None
    filter: str | None = None
    """A filter as JSON."""

    query: str | None = None
    """The slug of a saved query."""

    order: str | None = None
    columns: str | None = None
    restart: bool = False
    overwrite: bool = False


def add(commands: Any) -> None:
    """Add the command."""
    texts = {"description": DESCRIPTION, "epilog": EXAMPLES}
    export = add_command(commands, "export", "clearspan.client.export:export", "write spans to a file", **texts)
    export.add_argument("file", metavar="FILE", type=Path, help="the file to write")
    export.add_argument(
        "--format", dest="export_format", choices=("jsonl", "csv", "parquet"), help="default: the ending of FILE"
    )
    export.add_argument("--filter", metavar="JSON", help="the filter, as in the member `filtering` of a request")
    export.add_argument("--query", metavar="SLUG", help="the slug of a saved query; --filter narrows it")
    add_window(export)
    export.add_argument("--order", choices=("ascending", "descending"), help="order of start_time; default descending")
    export.add_argument("--columns", metavar="A,B", help="the columns of csv or parquet, such as span_id,cost")
    export.add_argument("--restart", action="store_true", help="discard what an interrupted export has left")
    export.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    gather(export, "chosen", ExportOptions)
    add_json(export)
    add_server(export)
