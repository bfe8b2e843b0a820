"""``clearspan prices``: the prices from which the cost of a model call is computed if its span has none (ADR 0010)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clearspan.console import NOTHING_FOUND, fail, print_json
from common.settings import Settings
from ingest.semconv.prices import LIST_PRICES, Cost, Price, PriceTable, cost_of, prices_in

_NUMBERS: Final = ("input", "cached_input", "cache_write", "output")


def show(settings: Settings, *, model: str | None, file: Path | None, as_json: bool, csv: bool) -> int:
    """Print the price table, or the row of one model; return the exit code."""
    if csv and model is not None:
        return fail("--csv prints the whole file; use --model alone, or with --json.", code=2)
    path = file or settings.ingest.prices_file
    table = prices_in(path)
    if model is not None:
        return _show_model(table, model, as_json=as_json)
    if csv:
        print((path or LIST_PRICES).read_text(encoding="utf-8"), end="")
    elif as_json:
        for price in table.prices:
            print_json(price._asdict())
    else:
        print(f"{len(table.prices)} models, {table.source}, US dollars per 1,000,000 tokens\n")
        _print_rows(table.prices)
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
