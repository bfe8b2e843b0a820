"""``clearspan prices update``: put newer prices where the worker reads them, and say what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final

from clearspan.client.output import note
from clearspan.command import Operand, Option, command
from clearspan.console import fail, print_json
from clearspan.embedded.layout import Layout, is_held
from clearspan.price_data import read_price_data
from clearspan.program import called
from common.prices.file import COLUMNS, LIST_PRICES, PRICES_MAX, InvalidPrices, file_of, own_file, prices_of
from common.prices.table import Price, PriceTable
from common.printable import printable
from common.settings import Settings

DESCRIPTION: Final = """\
Replace the prices that the worker uses by those in FILE: a table like that of `clearspan prices --csv`, the file
model_prices_and_context_window.json of the package litellm, or a wheel of it. Nothing is read from a network. The
prices are written to CLEARSPAN_INGEST__PRICES_FILE, or to prices.csv in CLEARSPAN_DATA_DIR. If anything in FILE is
wrong, nothing changes.
"""

EXAMPLES: Final = """\
prices of today
  pip download --no-deps --only-binary :all: litellm
  clearspan prices update --dry-run litellm-*.whl
  clearspan prices update --keep litellm-*.whl

The worker reads prices when it starts, and uses them for spans that it stores from then on. Stored costs never change.
"""
SHOWN_MAX: Final = 20
_COMMENTS: Final = (
    "List prices of models, in US dollars for 1,000,000 tokens: the standard tier, without discounts for batches,",
    "volume or regions and without surcharges for long contexts. An empty value: as the input, or not charged.",
    "A row covers other names of its model, such as dated snapshots: docs/prices.md.",
    "Rows from the package litellm: MIT License, Copyright 2023 Berri AI.",
)


@dataclass(frozen=True, slots=True)
class PriceChanges:
    """What is different in a new table."""

    added: Sequence[Price]
    changed: Sequence[tuple[Price, Price]]
    """The row before and the row after."""

    removed: Sequence[Price]

    @classmethod
    def between(cls, before: PriceTable, after: PriceTable) -> PriceChanges:
        """Compare two tables by the names of models."""
        old, new = ({price.model: price for price in table.prices} for table in (before, after))
        pairs = [(old[name], price) for name, price in new.items() if name in old]
        return cls(
            added=[price for name, price in new.items() if name not in old],
            changed=[(price, now) for price, now in pairs if price.amounts != now.amounts],
            removed=[price for name, price in old.items() if name not in new],
        )


def _day(text: str) -> date:
    return date.fromisoformat(text)


@command("replace the prices by newer ones, and show what changed", description=DESCRIPTION, epilog=EXAMPLES)
def update(
    settings: Settings,
    *,
    file: Annotated[Path, Operand("FILE", "a price table, or price data of litellm (JSON or wheel)", type=Path)],
    as_of: Annotated[
        date | None,
        Option("DATE", "the day of the prices, such as 2026-11-27, if FILE has none (default: today)", type=_day),
    ] = None,
    keep: Annotated[bool, Option(None, "keep the prices of models that FILE lacks")] = False,
    dry_run: Annotated[bool, Option(None, "change nothing")] = False,
    as_json: Annotated[bool, Option(None, "print one JSON object per change", flag="--json")] = False,
) -> int:
    """Write the prices in a file to where the worker reads them; return the exit code. Raises ``InvalidPrices``."""
    before = prices_of(settings)
    after = read_price_data(file, as_of=as_of or datetime.now(UTC).date())
    if keep:
        after = _joined(before, after)
    target = own_file(settings)
    if not dry_run:
        try:
            _write(after, target, source=file.name)
        except OSError as exc:
            return fail(f"{target} cannot be written: {exc.strerror}.")
    if before.as_of and after.as_of and after.as_of < before.as_of:
        note(f"These prices are of {after.as_of}, older than those of {before.as_of} before.")
    changes = PriceChanges.between(before, after)
    if as_json:
        for change in _as_json(changes):
            print_json(change)
        return 0
    print(f"{len(after.prices):,} models, {after.source} (before: {len(before.prices):,}, {before.source})")
    for line in _lines(changes):
        print(line)
    print(f"\n{_written(target, settings, dry_run=dry_run)}")
    return 0


def _joined(before: PriceTable, after: PriceTable) -> PriceTable:
    """Return the new prices and those of models that have none among them. Raises ``InvalidPrices``."""
    names = {price.model for price in after.prices}
    prices = sorted([*after.prices, *(price for price in before.prices if price.model not in names)])
    if len(prices) > PRICES_MAX:
        raise InvalidPrices(f"With those that are kept there are {len(prices):,} prices; {PRICES_MAX:,} are allowed.")
    return PriceTable(tuple(prices), after.source, after.as_of)


def _write(table: PriceTable, target: Path, *, source: str) -> None:
    """Replace a file atomically."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = target.with_suffix(".new")
    fresh.write_text(
        file_of(table, [*_COMMENTS, f"Written by `clearspan prices update` from {printable(source)}."]),
        encoding="utf-8",
    )
    fresh.replace(target)


def _written(target: Path, settings: Settings, *, dry_run: bool) -> str:
    if dry_run:
        return f"Nothing was changed; without --dry-run, {target} is written."
    if target.resolve() == LIST_PRICES:
        return f"Written to {target}, the built-in table."
    restart = "Restart the workers that read this file"
    if is_held(Layout(settings.data_dir.resolve())):
        restart = f"Restart the stack (`{called('down')}`, `{called('up --detach')}`)"
    return f"Written to {target}. {restart}: spans that are stored from then on get these prices."


def _lines(changes: PriceChanges) -> Iterator[str]:
    """Yield what changed, for people: at most ``SHOWN_MAX`` models of each kind."""
    parts: Mapping[str, Sequence[str]] = {
        "added": [f"{price.model}  {_amounts(price)}" for price in changes.added],
        "changed": [f"{now.model}  {_difference(price, now)}" for price, now in changes.changed],
        "removed": [price.model for price in changes.removed],
    }
    for kind, models in parts.items():
        hint = " (--keep keeps them)" if kind == "removed" and models else ""
        yield f"\n{kind}: {len(models):,}{hint}"
        yield from (f"  {model}" for model in models[:SHOWN_MAX])
        if len(models) > SHOWN_MAX:
            yield f"  and {len(models) - SHOWN_MAX:,} more; --json shows all"


def _amounts(price: Price) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in zip(COLUMNS[2:], price.amounts, strict=True))


def _difference(price: Price, now: Price) -> str:
    amounts = zip(COLUMNS[2:], price.amounts, now.amounts, strict=True)
    return ", ".join(f"{name} {before:g} → {after:g}" for name, before, after in amounts if before != after)


def _as_json(changes: PriceChanges) -> Iterator[dict[str, object]]:
    for price in changes.added:
        yield {"change": "added", **price._asdict()}
    for price, now in changes.changed:
        yield {"change": "changed", **now._asdict(), "before": price._asdict()}
    for price in changes.removed:
        yield {"change": "removed", **price._asdict()}
