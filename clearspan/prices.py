"""``clearspan prices``: what model calls are taken to cost, where no instrumentation says it (ADR 0010)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ingest.semconv.prices import Cost, Price, PriceTable

DESCRIPTION: Final = """\
A model call that says its model and its tokens, but no cost, gets one from this table: list prices, in US dollars for a million
tokens. A model that is not in it never costs anything. What is stored keeps the cost of its day.
"""
EXAMPLES: Final = """\
what a model costs, and which row says so
  clearspan prices --model gpt-4o-mini-2024-07-18

prices of your own, in place of these
  clearspan prices --csv > prices.csv           begin with a copy; lines that begin with # are comments
  clearspan prices --file prices.csv            see whether it can be read
  export CLEARSPAN_INGEST__PRICES_FILE=$PWD/prices.csv

columns: provider,model,input,cached_input,cache_write,output. What was read from the provider's cache, or written to it, costs as
the input where its place is empty; an empty output is not charged. A model's name stands for its dated snapshots too.
"""
WRONG_USAGE: Final = 2

_NUMBERS: Final = ("input", "cached_input", "cache_write", "output")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what can be asked."""
    parser.add_argument(
        "--model", metavar="NAME", help="the row of one model, and what 1,000 tokens cost; exit code 1 if none"
    )
    parser.add_argument(
        "--file", metavar="FILE", type=Path, help="the prices in this file, not those that the settings name"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="one JSON object a line")
    shape.add_argument("--csv", action="store_true", help="the file itself")
    parser.set_defaults(command=_show)


def _show(arguments: argparse.Namespace) -> int:
    from common.environment import read_settings  # noqa: PLC0415 - rooms are loaded by the command that needs them
    from ingest.semconv.prices import LIST_PRICES, prices_in  # noqa: PLC0415

    if arguments.csv and arguments.model is not None:
        print(
            "clearspan: --csv is the whole file; the row of a model is shown without it, or with --json.",
            file=sys.stderr,
        )
        return WRONG_USAGE
    path = arguments.file or read_settings().ingest.prices_file
    table = prices_in(path)
    if arguments.model is not None:
        return _show_model(table, arguments.model, as_json=arguments.json)
    if arguments.csv:
        print((path or LIST_PRICES).read_text(encoding="utf-8"), end="")
    elif arguments.json:
        for price in table.prices:
            print(json.dumps(price._asdict()))
    else:
        print(f"{len(table.prices)} models, {table.source}, US dollars for 1,000,000 tokens\n")
        _print_rows(table.prices)
    return 0


def _show_model(table: PriceTable, model: str, *, as_json: bool) -> int:
    from ingest.semconv.prices import cost_of  # noqa: PLC0415 - as above

    price = table.price_of(model)
    if price is None:
        print(f"clearspan: {model!r} is not in the table ({table.source}): its calls get no cost.", file=sys.stderr)
        return 1
    asked, answered = cost_of(price, {"prompt": 1_000}), cost_of(price, {"completion": 1_000})
    if as_json:
        print(json.dumps(_members(price, table.source, asked, answered)))
        return 0
    _print_rows([price])
    print(
        f"\n1,000 tokens of prompt      {_total(asked):.6f} USD\n1,000 tokens of completion  {_total(answered):.6f} USD"
    )
    return 0


def _members(price: Price, source: str, asked: Cost | None, answered: Cost | None) -> dict[str, Any]:
    thousand = {"prompt": _total(asked), "completion": _total(answered)}
    return {**price._asdict(), "source": source, "cost_of_1000_tokens": thousand}


def _total(cost: Cost | None) -> float:
    return 0.0 if cost is None else cost.total


def _print_rows(prices: Sequence[Price]) -> None:
    width = max(len(price.model) for price in prices)
    print(f"{'provider':<10} {'model':<{width}} {''.join(f'{name:>13}' for name in _NUMBERS)}")
    for price in prices:
        amounts = (getattr(price, name) for name in _NUMBERS)
        print(f"{price.provider:<10} {price.model:<{width}} {''.join(f'{amount:>13g}' for amount in amounts)}")
