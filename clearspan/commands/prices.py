"""``clearspan prices``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from clearspan.commands.options import add_command, add_json

DESCRIPTION: Final = """\
Show the price table. A model call whose span has a model and tokens but no cost gets a cost from this table: list
prices, in US dollars per million tokens. A model that is not in the table gets no cost. Stored costs never change.
"""

EXAMPLES: Final = """\
what a model costs, and which row says so
  clearspan prices --model gpt-4o-mini-2024-07-18

replace the table with your own prices
  clearspan prices --csv > prices.csv           start with a copy; lines that begin with # are comments
  clearspan prices --file prices.csv            check that it can be read
  export CLEARSPAN_INGEST__PRICES_FILE=$PWD/prices.csv

columns: provider,model,input,cached_input,cache_write,output. An empty cached_input or cache_write means the price of
input, for tokens that were read from or written to the provider's cache; an empty output means no charge. The name of a
model also covers its dated snapshots.
"""


def add(commands: Any) -> None:
    """Add the commands."""
    summary = "show the prices from which costs of model calls are computed"
    texts = {"description": DESCRIPTION, "epilog": EXAMPLES}
    prices = add_command(commands, "prices", "clearspan.prices:show", summary, **texts)
    prices.add_argument(
        "--model",
        metavar="NAME",
        help="show the row of one model, and what 1,000 tokens cost; exit code 3 if there is none",
    )
    prices.add_argument("--file", metavar="FILE", type=Path, help="read the prices from this file")
    output = prices.add_mutually_exclusive_group()
    add_json(output)
    output.add_argument("--csv", action="store_true", help="print the file itself")
