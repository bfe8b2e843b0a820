"""``clearspan prices unknown``: the models of a project that were used without a price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from clearspan.client.connection import ApiClient, api_command
from clearspan.client.output import TableColumn, note, print_objects, print_table
from clearspan.client.requests import windowing_of
from clearspan.client.span_values import local_time
from clearspan.command import Json, Option
from clearspan.options import WindowOptions, limit

DESCRIPTION: Final = """\
List the models whose calls used tokens and have no cost: no instrumentation reported one, and the price table has no
price. The model that was used last comes first. The answer is that of the API, for the project of the key.
"""
EXAMPLES: Final = """\
examples
  clearspan prices unknown
  clearspan prices unknown --last 7d --json

A row in your own file gives a model a price, 0 included, for calls that are stored from then on: docs/prices.md.
"""
_COLUMNS: Final = (
    TableColumn("provider"),
    TableColumn("model"),
    TableColumn("calls", "right", is_whole=True),
    TableColumn("tokens", "right", is_whole=True),
    TableColumn("first seen", is_whole=True, is_optional=True),
    TableColumn("last seen", is_whole=True),
)


@api_command("list models that were used without a price", description=DESCRIPTION, epilog=EXAMPLES, is_table=True)
async def unknown(
    api: ApiClient,
    *,
    window: WindowOptions,
    limit: Annotated[int, Option("N", "at most N models (default: 100)", type=limit)] = 100,
    as_json: Json = False,
) -> int:
    """Print models without a price."""
    answer = await api.get("/prices/unknown", limit=str(limit), **windowing_of(window))
    if as_json:
        print_objects(answer["models"])
    elif answer["models"]:
        print_table(_COLUMNS, [_row(model) for model in answer["models"]])
    else:
        note("Every model that used tokens has a cost.")
    if others := answer.get("others_count"):
        note(f"and {others:,} more models; --limit shows more.")
    if answer.get("complete") is False:
        oldest = answer.get("examined", {}).get("oldest")
        note(f"The time of the query ended: only spans from {oldest} on are counted.")
    return 0


def _row(model: Mapping[str, Any]) -> Sequence[object]:
    return (
        model.get("provider"),
        model["model"],
        f"{model['calls']:,}",
        f"{model['tokens']:,}",
        local_time(model["first_seen"]),
        local_time(model["last_seen"]),
    )
