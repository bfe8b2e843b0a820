"""``clearspan query``: find spans and print them as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from clearspan.client.connection import ApiClient, WrongUsage, api_command
from clearspan.client.output import TableColumn, note, print_objects, print_table, safe, show_progress
from clearspan.client.requests import RANKED_MAX, filtering_of, pages, windowing_of
from clearspan.client.span_values import (
    Span,
    cost_text,
    duration_ms,
    duration_text,
    is_error,
    local_time,
    read_columns,
    value_of,
)
from clearspan.command import Json, Option
from clearspan.console import NOTHING_FOUND
from clearspan.options import OrderOptions, SpanOptions, WindowOptions

DESCRIPTION: Final = """\
Find spans. A condition is a field, an operator and a value, with the names of the query language; `exists` and
`not_exists` take no value. Join conditions with `and`, `or`, `not` and brackets. A dotted name that is no field, such
as http.status, is an attribute. Other words are searched for in all texts. Newest spans come first.
"""
EXAMPLES: Final = """\
examples
  clearspan query --last 1h --errors
  clearspan query span_type is chat and cost gt 0.01 --sort cost
  clearspan query service in shop,pay and attributes.http.status gte 500 --columns start_time,span_name,http.status
  clearspan query 'status = error and (cost > $0.01 or duration > 2s)'
  clearspan query refund policy --json
  clearspan query model startswith gpt-4 --limit 1000 --json | wc -l

Quote for the shell what has > < ( ) or $, and a value with spaces. Lists are separated by commas, or are JSON. On
attributes, 500 is a number and '"500"' is a text. docs/query-language.md lists all fields and operators.
"""
SPANS: Final = "/spans/query"
USUAL: Final = ("start_time", "duration", "span_type", "span_name", "model", "tokens", "cost", "trace_id")
OPTIONAL: Final = frozenset({"span_type", "model", "tokens", "cost"})
"""Those of ``USUAL`` that a narrow terminal leaves out."""

_COLUMNS: Final = {
    "start_time": TableColumn("start_time", is_whole=True, style="dim"),
    "duration": TableColumn("duration", "right", is_whole=True),
    "tokens": TableColumn("tokens", "right", is_whole=True),
    "cost": TableColumn("cost", "right", is_whole=True),
    "trace_id": TableColumn("trace_id", is_whole=True, style="cyan"),
    "span_id": TableColumn("span_id", is_whole=True, style="cyan"),
}


@api_command(description=DESCRIPTION, epilog=EXAMPLES, is_table=True)
async def query(
    api: ApiClient,
    *,
    spans: SpanOptions,
    window: WindowOptions,
    columns: Annotated[
        str | None,
        Option(
            "A,B",
            "what to show: fields, and paths such as attributes.http.status; with --json, the members of each object",
        ),
    ] = None,
    order: OrderOptions,
    exit_code: Annotated[bool, Option(None, "exit with 3 if there is no such span")] = False,
    as_json: Json = False,
) -> int:
    """Print the spans that match; return 3 if there is none and the exit code should say so."""
    names = read_columns(columns) if columns is not None else None
    if order.sort is not None and order.limit > RANKED_MAX:
        raise WrongUsage(f"--sort returns at most {RANKED_MAX:,} spans; --limit is {order.limit:,}.")
    body = {**await filtering_of(api, spans), "windowing": windowing_of(window, order)}
    found_count = await _print_spans(api, body, names, limit=order.limit, as_json=as_json)
    if found_count == 0 and not as_json:
        note("No span matches.")
    return NOTHING_FOUND if exit_code and found_count == 0 else 0


async def _print_spans(
    api: ApiClient, body: dict[str, Any], names: Sequence[str] | None, *, limit: int, as_json: bool
) -> int:
    """Print spans; return how many. JSON is printed page by page, a table when it is complete."""
    shown = USUAL if names is None else names
    rows: list[list[object]] = []
    found_count = 0
    with show_progress("reading spans", total=limit, is_printing=as_json) as progress:
        async for page in pages(api, SPANS, body, member="spans", limit=limit):
            found_count += len(page)
            progress.advance(len(page))
            if as_json:
                print_objects(_selected(span, names) for span in page)
            else:
                rows += ([_cell(span, name) for name in shown] for span in page)
    if rows:
        print_table([_column(name, is_chosen=names is not None) for name in shown], rows)
    return found_count


def _column(name: str, *, is_chosen: bool) -> TableColumn:
    """Return a column; one that nobody has chosen may be left out."""
    column = _COLUMNS.get(name, TableColumn(name))
    return column._replace(is_optional=not is_chosen and name in OPTIONAL)


def _selected(span: Span, names: Sequence[str] | None) -> Span:
    return span if names is None else {name: value_of(span, name) for name in names}


def _cell(span: Span, name: str) -> object:
    """Return a value as people read it."""
    value = value_of(span, name)
    match name:
        case "start_time" | "end_time" | "created_at":
            return local_time(value) if value is not None else None
        case "duration":
            return duration_text(duration_ms(span))
        case "cost":
            return cost_text(value)
        case "span_name" if is_error(span):
            return safe(f"✗ {value}", "red")
        case _:
            return value
