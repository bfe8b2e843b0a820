"""``clearspan query``: its options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_filter, add_json, add_order, add_server, add_table, add_window

DESCRIPTION: Final = """\
Find spans. A condition is three words: a field, an operator and a value, with the names of the query language;
`exists` and `not_exists` take no value. A dotted name that is no field, such as http.status, is an attribute. Newest
spans come first.
"""
EXAMPLES: Final = """\
examples
  clearspan query --last 1h --errors
  clearspan query span_type is chat and cost gt 0.01 --sort cost
  clearspan query service in shop,pay and attributes.http.status gte 500 --columns start_time,span_name,http.status
  clearspan query --filter '{"field": "content", "operator": "contains", "value": "refund policy"}' --json
  clearspan query model startswith gpt-4 --limit 1000 --json | wc -l

A value is one word: quote it if it has spaces. Lists are separated by commas, or are JSON. On attributes, 500 is a
number and '"500"' is a text. docs/query-language.md lists all fields and operators.
"""


def add(commands: Any) -> None:
    """Add the command."""
    texts = {"description": DESCRIPTION, "epilog": EXAMPLES}
    query = add_command(commands, "query", "clearspan.client.query:query", "find spans", **texts)
    add_filter(query)
    add_window(query)
    query.add_argument(
        "--columns",
        metavar="A,B",
        help="what to show: fields, and paths such as attributes.http.status; with --json, the members of each object",
    )
    add_order(query, "spans")
    query.add_argument("--exit-code", action="store_true", help="exit with 3 if there is no such span")
    add_json(query)
    add_table(query)
    add_server(query)
