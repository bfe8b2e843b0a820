"""Files of prices: the built-in table, the one that replaces it, and their format (docs/prices.md).

A file of the user wins: the one that ``CLEARSPAN_INGEST__PRICES_FILE`` names, else ``prices.csv`` in the data directory
if there is one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from common.errors import InvalidSettings
from common.prices.table import LISTED, MODEL_CHARS_MAX, Price, PriceTable

if TYPE_CHECKING:
    from common.settings import Settings

LIST_PRICES: Final = Path(__file__).with_name("prices.csv")
FILE_NAME: Final = "prices.csv"
"""The name of the file in the data directory."""

COLUMNS: Final = ("provider", "model", "input", "cached_input", "cache_write", "output")
PRICES_MAX: Final = 10_000
"""Maximum rows of a price file."""

DOLLARS_MAX: Final = 1_000_000
"""Limit of a price per million tokens, and of the cost of one call."""

_AS_OF: Final = re.compile(r"#\s*as of\s+(\S+)\s*$")


class InvalidPrices(InvalidSettings):
    """A price file that cannot be used. The message names the file, the line, and what is wrong there."""


@cache
def list_prices() -> PriceTable:
    """Return the built-in table."""
    return read_prices(LIST_PRICES)


def own_file(settings: Settings) -> Path:
    """Return the path of the file that replaces the built-in table once it exists."""
    return settings.ingest.prices_file or settings.data_dir / FILE_NAME


def prices_path(settings: Settings) -> Path:
    """Return the file of the table that is used."""
    path = own_file(settings)
    return path if settings.ingest.prices_file or path.exists() else LIST_PRICES


def prices_of(settings: Settings) -> PriceTable:
    """Return the table that is used. Raises ``InvalidPrices``."""
    path = prices_path(settings)
    return list_prices() if path == LIST_PRICES else read_prices(path)


def read_prices(path: Path) -> PriceTable:
    """Return the table in a file. Raises ``InvalidPrices``."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidPrices(f"The prices in {path} cannot be read: {exc}.") from exc
    prices: dict[str, Price] = {}
    has_header = False
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        try:
            if has_header:
                _take(_price(cells), prices)
            else:
                _check_header(cells)
                has_header = True
        except (ValueError, csv.Error) as exc:
            raise InvalidPrices(f"{path}, line {number}: {exc}.") from exc
    if not prices:
        raise InvalidPrices(f"{path} holds no prices.")
    stated = _date(lines)
    return PriceTable(tuple(prices.values()), source=f"{LISTED}{stated or path.name}", as_of=_day(stated))


def file_of(table: PriceTable, comments: Sequence[str]) -> str:
    """Return the text of a file that holds a table, whose date is known; empty cells where a price follows from
    others.
    """
    text = io.StringIO()
    text.writelines(f"# {comment}\n" for comment in comments)
    text.write(f"# as of {table.as_of}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for price in table.prices:
        derived = (None, price.input, price.input, 0.0)
        amounts = zip(price.amounts, derived, strict=True)
        writer.writerow(
            [price.provider, price.model, *("" if amount == same else _shown(amount) for amount, same in amounts)]
        )
    return text.getvalue()


def _shown(amount: float) -> str:
    return f"{amount:.9f}".rstrip("0").rstrip(".")


def _check_header(cells: Sequence[str]) -> None:
    if tuple(cells) != COLUMNS:
        raise ValueError(f"the first line must be {','.join(COLUMNS)!r}, not {','.join(cells)!r}")


def _price(cells: Sequence[str]) -> Price:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} values; there must be {len(COLUMNS)}, some of them empty")
    provider, model, *amounts = cells
    if not model:
        raise ValueError("the name of the model is missing")
    if len(model) > MODEL_CHARS_MAX:
        raise ValueError(f"the name of the model has {len(model)} characters; {MODEL_CHARS_MAX} are allowed")
    input_price, cached, written, output = map(_dollars, COLUMNS[2:], amounts)
    if input_price is None:
        raise ValueError("input must be a number of US dollars, not empty")
    return Price(
        provider,
        model.lower(),
        input=input_price,
        cached_input=input_price if cached is None else cached,
        cache_write=input_price if written is None else written,
        output=output or 0.0,
    )


def _dollars(column: str, text: str) -> float | None:
    try:
        dollars = float(text) if text else None
    except ValueError:
        dollars = -1.0
    if dollars is not None and not 0 <= dollars <= DOLLARS_MAX:
        raise ValueError(f"{column} must be a number of US dollars between 0 and {DOLLARS_MAX:,}, not {text!r}")
    return dollars


def _take(price: Price, prices: dict[str, Price]) -> None:
    if price.model in prices:
        raise ValueError(f"{price.model} has a price already")
    if len(prices) == PRICES_MAX:
        raise ValueError(f"more than {PRICES_MAX:,} prices")
    prices[price.model] = price


def _date(lines: Iterable[str]) -> str | None:
    """Return the date of the prices that a comment states."""
    stated = (_AS_OF.fullmatch(line.strip()) for line in lines)
    return next((match[1] for match in stated if match), None)


def _day(stated: str | None) -> date | None:
    """Return the day, the first one of a month (``2026-03``); ``None`` for any other text."""
    for text in (stated or "", f"{stated}-01"):
        try:
            return date.fromisoformat(text)
        except ValueError:
            continue
    return None
