"""The price table: what tokens of a model cost, found by any of its names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final, NamedTuple

from common.prices.names import SELF_HOSTED, names_of

MODEL_CHARS_MAX: Final = 256
"""Maximum length of a model name; a longer one is unknown."""

AGE_DAYS_MAX: Final = 90
"""Age of a table from which on people are warned."""

_REMEMBERED_MAX: Final = 4_096


class Price(NamedTuple):
    """One row of the table, in US dollars per million tokens."""

    provider: str
    model: str
    input: float
    cached_input: float
    cache_write: float
    output: float

    @property
    def amounts(self) -> tuple[float, ...]:
        """What the tokens cost: ``input``, ``cached_input``, ``cache_write``, ``output``."""
        return self[2:]


_UNSEEN: Final = Price("", "", 0.0, 0.0, 0.0, 0.0)


LISTED: Final = "prices "
"""The beginning of what marks a cost from a table."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """The prices of models. ``source`` is what a cost is marked with: ``prices`` and the date of the table.

    ``as_of`` is the day on which the prices applied, ``None`` if the file does not state it. The cache of names is
    bounded, and not part of the value. Safe to use from several threads.
    """

    prices: tuple[Price, ...]
    source: str
    as_of: date | None = None
    _by_name: dict[str, Price] = field(init=False, compare=False, repr=False, default_factory=dict)
    _remembered: dict[tuple[str, str], Price | None] = field(
        init=False, compare=False, repr=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        self._by_name.update((price.model, price) for price in self.prices)

    def price_of(self, model: str, provider: str = "") -> Price | None:
        """Return the row of a model, by its name or by that of the model whose snapshot it is; ``None`` if it is
        unknown.

        ``provider`` is that of the span. A row of the provider wins over one of the model alone, and for a self-hosted
        model only a row of this provider counts.
        """
        key = (model, provider)
        known = self._remembered.get(key, _UNSEEN)
        if known is not _UNSEEN:
            return known
        if len(model) > MODEL_CHARS_MAX:
            return None
        if len(provider) > MODEL_CHARS_MAX:
            return self.price_of(model)
        price = self._find(model, provider)
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[key] = price
        return price

    def age_warning(self, today: date) -> str | None:
        """Return a sentence if the table is older than ``AGE_DAYS_MAX``; ``None`` too if its date is not known."""
        days = 0 if self.as_of is None else (today - self.as_of).days
        if days <= AGE_DAYS_MAX:
            return None
        return (
            f"The prices of models are of {self.as_of}, {days} days old: costs of newer models are missing, others may"
            " be wrong. `clearspan prices update` takes newer ones."
        )

    def _find(self, model: str, provider: str) -> Price | None:
        rows = map(self._by_name.get, names_of(model, provider))
        price = next((row for row in rows if row is not None), None)
        if price is None or provider not in SELF_HOSTED or price.provider == provider:
            return price
        return None
