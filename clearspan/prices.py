"""``clearspan prices``: the prices from which the cost of a model call is computed if its span has none (ADR 0010)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from clearspan.client.output import note
from clearspan.client.unpriced import unknown
from clearspan.command import Group, Option, command
from clearspan.console import NOTHING_FOUND, fail, print_json
from clearspan.price_update import update
from common.prices.file import prices_path, read_prices
from common.prices.table import Price, PriceTable
from common.settings import Settings
from ingest.semconv.prices import Cost, cost_of

DESCRIPTION: Final = """\
Show the price table. A model call whose span has a model and tokens but no cost gets a cost from this table: list
prices, in US dollars per million tokens. A model that is not in the table gets no cost. Stored costs never change.
"""

EXAMPLES: Final = """\
what a model costs, and which row says so
  clearspan prices --model gpt-4o-mini-2024-07-18

newer prices
  pip download --no-deps --only-binary :all: litellm
  clearspan prices update --keep litellm-*.whl

models that were used without a price
  clearspan prices unknown --last 7d

replace the table with your own prices
  clearspan prices --csv > prices.csv           start with a copy; lines that begin with # are comments
  clearspan prices --file prices.csv            check that it can be read
  export CLEARSPAN_INGEST__PRICES_FILE=$PWD/prices.csv

columns: provider,model,input,cached_input,cache_write,output. An empty cached_input or cache_write means the price of
input, for tokens that were read from or written to the provider's cache; an empty output means no charge. The name of a
model also covers its dated snapshots.
"""
_NUMBERS: Final = ("input", "cached_input", "cache_write", "output")


@command()
def show(
    settings: Settings,
    *,
    model: Annotated[
        str | None,
        Option("NAME", "show the row of one model, and what 1,000 tokens cost; exit code 3 if there is none"),
    ] = None,
    file: Annotated[Path | None, Option("FILE", "read the prices from this file", type=Path)] = None,
    as_json: Annotated[bool, Option(None, "print one JSON object per line", flag="--json", one_of="output")] = False,
    csv: Annotated[bool, Option(None, "print the file itself", one_of="output")] = False,
) -> int:
    """Print the price table, or the row of one model; return the exit code. Raises ``InvalidPrices``."""
    if csv and model is not None:
        return fail("--csv prints the whole file; use --model alone, or with --json.", code=2)
    path = file or prices_path(settings)
    table = read_prices(path)
    if model is not None:
        return _show_model(table, model, as_json=as_json)
    if csv:
        print(path.read_text(encoding="utf-8"), end="")
    elif as_json:
        for price in table.prices:
            print_json(price._asdict())
    else:
        print(f"{len(table.prices)} models, {table.source}, US dollars per 1,000,000 tokens\n")
        _print_rows(table.prices)
        if warning := table.age_warning(datetime.now(UTC).date()):
            note(warning)
    return 0


def _show_model(table: PriceTable, model: str, *, as_json: bool) -> int:
    price = table.price_of(model)
    if price is None:
        return fail(f"{model!r} is not in the table ({table.source}): its calls get no cost.", code=NOTHING_FOUND)
    costs = {part: _total(cost_of(price, {part: 1_000})) for part in ("prompt", "completion")}
    if as_json:
        print_json({**price._asdict(), "source": table.source, "cost_of_1000_tokens": costs})
        return 0
    _print_rows([price])
    print(
        f"\n1,000 prompt tokens      {costs['prompt']:.6f} USD\n1,000 completion tokens  {costs['completion']:.6f} USD"
    )
    return 0


def _total(cost: Cost | None) -> float:
    return 0.0 if cost is None else cost.total


def _print_rows(prices: Sequence[Price]) -> None:
    width = max(len(price.model) for price in prices)
    print(f"{'provider':<10} {'model':<{width}} {''.join(f'{name:>13}' for name in _NUMBERS)}")
    for price in prices:
        amounts = (getattr(price, name) for name in _NUMBERS)
        print(f"{price.provider:<10} {price.model:<{width}} {''.join(f'{amount:>13g}' for amount in amounts)}")


prices: Final = Group({"update": update, "unknown": unknown}, description=DESCRIPTION, epilog=EXAMPLES, alone=show)
