"""The price table of models, and the costs of spans to which no instrumentation gave any (ADR 0010).

The table is data: ``prices.csv`` next to this file, or a file of the user that replaces it. A span gets a cost from it
only if it is a model call with a model and tokens, and the model is in the table. A cost that came with the span is
never changed. ``ag.meta.cost_source`` says which of the two it is.

Tokens that were read from the provider's cache, or written to it, are part of the prompt in all conventions that are
mapped; if they exceed the prompt, they were counted separately, as Anthropic's own API does.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from common.settings import InvalidSettings
from common.span import MODEL_CALLS

PRICED: Final = frozenset({*MODEL_CALLS, "query"})
"""The types of spans that may get a cost: model calls, and queries, which the reference prices too (§3.3; ours adds
``llm``). ``agent`` and the like repeat what their model calls used.
"""

GIVEN: Final = "instrumentation"
"""``ag.meta.cost_source`` of a cost that came with the span."""

LIST_PRICES: Final = Path(__file__).with_name("prices.csv")
COLUMNS: Final = ("provider", "model", "input", "cached_input", "cache_write", "output")
PRICES_MAX: Final = 10_000
"""Maximum rows of a price file."""

MODEL_CHARS_MAX: Final = 256
"""Maximum length of a model name; a longer one is unknown."""

DOLLARS_MAX: Final = 1_000_000
"""Limit of a price per million tokens, and of the cost of one call."""

_NUMBERS: Final = frozenset({int, float})
_NOTHING: Final[Mapping[str, Any]] = {}
_REMEMBERED_MAX: Final = 4_096
_PER_TOKENS: Final = 1_000_000
_DIGITS: Final = 12
"""Decimal places: a millionth of a millionth of a dollar. Below are only the errors of binary fractions."""

_AS_OF: Final = re.compile(r"#\s*as of\s+(\S+)\s*$")
_RUN_BY_ONESELF: Final = frozenset(
    {
        "hosted_vllm",
        "llama_cpp",
        "llamafile",
        "lm_studio",
        "lmstudio",
        "local",
        "localai",
        "ollama",
        "ollama_chat",
        "vllm",
    }
)
"""Prefixes of names, or providers, of self-hosted models: no list price applies to them."""

_PREFIXES: Final = re.compile(
    r"(?:.*/)?(?:(?:us|eu|apac|jp|au|global)\.)?(?:(?:anthropic|amazon|cohere|mistral|deepseek)\.)?"
)
"""Prefixes that gateways and clouds add to a name: ``openai/``, ``us.anthropic.``."""

_SUFFIXES: Final = tuple(
    map(re.compile, (r":\d+$", r"-v\d+$", r"-latest$|[-@]\d{8}$|-\d{4}-\d{2}-\d{2}$|-\d{3}$", r"-v\d+$"))
)
"""Suffixes of snapshots, from the end of a name: the version that one cloud puts there (``-v1:0``), a date or a number,
and the version that another cloud puts before the date (``-v2@20241022``).
"""


class InvalidPrices(InvalidSettings):
    """A price file that cannot be used. The message names the file, the line, and what is wrong there."""


class Price(NamedTuple):
    """One row of the table, in US dollars per million tokens."""

    provider: str
    model: str
    input: float
    cached_input: float
    cache_write: float
    output: float


_UNSEEN: Final = Price("", "", 0.0, 0.0, 0.0, 0.0)


class Cost(NamedTuple):
    """Costs in US dollars."""

    prompt: float
    completion: float
    total: float


@dataclass(frozen=True, slots=True)
class PriceTable:
    """The prices of models. ``source`` is what a cost is marked with: ``prices`` and the date of the table.

    Its cache of names is bounded, and not part of its value. Safe to use from several threads.
    """

    prices: tuple[Price, ...]
    source: str
    _by_name: dict[str, Price] = field(init=False, compare=False, repr=False, default_factory=dict)
    _remembered: dict[str, Price | None] = field(init=False, compare=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name.update((price.model, price) for price in self.prices)

    def price_of(self, model: str) -> Price | None:
        """Return the row of a model, by its name or by that of the model whose snapshot it is; ``None`` if it is
        unknown.
        """
        known = self._remembered.get(model, _UNSEEN)
        if known is not _UNSEEN:
            return known
        price = self._find(model) if len(model) <= MODEL_CHARS_MAX else None
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[model] = price
        return price

    def _find(self, model: str) -> Price | None:
        name = model.strip().lower()
        found = self._find_snapshot(name)
        if found is not None or name.partition("/")[0] in _RUN_BY_ONESELF:
            return found
        return self._find_snapshot(_PREFIXES.sub("", name, count=1))

    def _find_snapshot(self, name: str) -> Price | None:
        for suffix in _SUFFIXES:
            if name in self._by_name:
                break
            name = suffix.sub("", name)
        return self._by_name.get(name)


@cache
def list_prices() -> PriceTable:
    """Return the built-in table."""
    return read_prices(LIST_PRICES)


def prices_in(path: Path | None) -> PriceTable:
    """Return the table of the user's file, or the built-in one if there is none. Raises ``InvalidPrices``."""
    return list_prices() if path is None else read_prices(path)


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
    return PriceTable(tuple(prices.values()), source=f"prices {_date(lines) or path.name}")


def cost_of(price: Price, tokens: Mapping[str, Any]) -> Cost | None:
    """Return the cost of tokens, named as in ``ag.metrics.tokens.incremental``; ``None`` without priced tokens."""
    prompt, completion = _count(tokens.get("prompt")), _count(tokens.get("completion"))
    if not prompt and not completion and not price.output:
        prompt = _count(tokens.get("total"))
    if not prompt and not completion:
        return None
    cached = _count(tokens["cache_read"] if "cache_read" in tokens else tokens.get("cached"))
    written = _count(tokens["cache_write"] if "cache_write" in tokens else tokens.get("cache_creation"))
    of_prompt = prompt * price.input
    if cached or written:
        plain = prompt - cached - written if cached + written <= prompt else prompt
        of_prompt = plain * price.input + cached * price.cached_input + written * price.cache_write
    of_completion = completion * price.output
    total = (of_prompt + of_completion) / _PER_TOKENS
    if total > DOLLARS_MAX:  # absurd, and maybe not finite
        return None
    return Cost(
        round(of_prompt / _PER_TOKENS, _DIGITS), round(of_completion / _PER_TOKENS, _DIGITS), round(total, _DIGITS)
    )


def add_costs(ag: dict[str, Any], prices: PriceTable) -> None:
    """Add the cost of a span to its canonical ``ag`` if it has none and its model has a price, and mark its source.

    Safe to repeat: an existing cost keeps its value and its mark.
    """
    costs = ag["metrics"]["costs"]
    given = costs.get("incremental")
    if given and not _NUMBERS.isdisjoint(map(type, given.values())):
        _mark(ag, GIVEN)
        return
    tokens = ag["metrics"]["tokens"].get("incremental")
    if not tokens or ag["type"].get("span") not in PRICED:
        return
    price = _price_of_call(ag, prices)
    cost = None if price is None else cost_of(price, tokens)
    if cost is not None:
        prompt, completion, total = cost
        costs["incremental"] = {**(given or {}), "prompt": prompt, "completion": completion, "total": total}
        _mark(ag, prices.source)


def _price_of_call(ag: Mapping[str, Any], prices: PriceTable) -> Price | None:
    """Return the row of the span's model; for a self-hosted model only a row that says so."""
    price = prices.price_of(model_of(ag))
    provider = ag.get("meta", _NOTHING).get("system")
    if price is None or not isinstance(provider, str) or provider not in _RUN_BY_ONESELF:
        return price
    return price if price.provider == provider else None


def model_of(ag: Mapping[str, Any]) -> str:
    """Return the model that responded, else the requested one; ``''`` if the span names none."""
    meta = ag.get("meta", _NOTHING)
    for said in (meta.get("response"), meta.get("request"), ag["data"].get("parameters")):
        if said and type(said) is dict:
            model = said.get("model")
            if model and type(model) is str:
                return model
    return ""


def _mark(ag: dict[str, Any], source: str) -> None:
    meta = ag.get("meta", _NOTHING)
    if "cost_source" not in meta:
        ag["meta"] = {**meta, "cost_source": source}


def _count(said: Any) -> float:
    """Return the number of tokens; 0 if it is not a number, or negative."""
    return said if type(said) in _NUMBERS and said > 0 else 0


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
    found = (_AS_OF.fullmatch(line.strip()) for line in lines)
    return next((match[1] for match in found if match), None)
