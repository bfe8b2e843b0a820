"""The costs of spans to which no instrumentation gave any, from the prices of models (ADR 0010).

A span gets a cost from the table (``common/prices``) if it has tokens and a model that is in the table, whatever its
type: an agent may be the only one to report tokens. Where spans below it report costs, its own adds nothing
(``common/usage.py``). A cost that came with the span wins unless it is 0. ``ag.meta.cost_source`` says which of the two
it is.

Tokens that were read from the provider's cache, or written to it, are part of the prompt (``prompt_tokens.py``); if
they exceed the prompt, they were counted separately, as Anthropic's own API does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from common.prices.file import DOLLARS_MAX
from common.prices.table import LISTED, Price, PriceTable
from common.span import COST_DECIMALS, MODEL_CALLS

GIVEN: Final = "instrumentation"
"""``ag.meta.cost_source`` of a cost that came with the span."""

UNPRICED: Final = "unpriced_model"
"""The member of ``ag.meta`` that names the model of a call with tokens for which nobody knows a price."""

CALLS: Final = frozenset({*MODEL_CALLS, "query"})
"""The types of spans whose model is named if it has no price: calls, which ``agent`` and the like only repeat."""

_PARTS: Final = ("prompt", "completion", "total")
_NUMBERS: Final = frozenset({int, float})
_NOTHING: Final[Mapping[str, Any]] = {}
_PER_TOKENS: Final = 1_000_000


class Cost(NamedTuple):
    """Costs in US dollars."""

    prompt: float
    completion: float
    total: float


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
        round(of_prompt / _PER_TOKENS, COST_DECIMALS),
        round(of_completion / _PER_TOKENS, COST_DECIMALS),
        round(total, COST_DECIMALS),
    )


def add_costs(ag: dict[str, Any], prices: PriceTable) -> bool:
    """Add the cost of a span to its canonical ``ag`` if it has none and its model has a price, and mark its source.

    Return whether its cost is a list price. A cost of 0 that came with tokens of a model with a price is none:
    libraries send it if they know no price. If the table has no price for a call either, ``UNPRICED`` names the model.
    Safe to repeat: a cost keeps its value and its mark.
    """
    meta = ag.get("meta", _NOTHING)
    if UNPRICED in meta:
        meta = ag["meta"] = {name: value for name, value in meta.items() if name != UNPRICED}
    costs = ag["metrics"]["costs"]
    given = costs.get("incremental")
    is_given = bool(given) and not _NUMBERS.isdisjoint(map(type, given.values()))
    if is_given and (meta.get("cost_source", GIVEN) != GIVEN or any(map(_is_charged, given.values()))):
        source = meta.get("cost_source", GIVEN)
        _mark(ag, source)
        return isinstance(source, str) and source.startswith(LISTED)
    tokens = ag["metrics"]["tokens"].get("incremental")
    model = model_of(ag) if tokens else ""
    price = prices.price_of(model, _provider_of(meta)) if model else None
    cost = None if price is None else cost_of(price, tokens)
    if cost is not None and (cost.total or not is_given):
        prompt, completion, total = cost
        costs["incremental"] = {**(given or {}), "prompt": prompt, "completion": completion, "total": total}
        _mark(ag, prices.source)
        return True
    if is_given:
        _mark(ag, GIVEN)
    elif (
        model and price is None and ag["type"].get("span") in CALLS and any(_count(tokens.get(part)) for part in _PARTS)
    ):
        ag["meta"] = {**meta, UNPRICED: model}
    return False


def _provider_of(meta: Mapping[str, Any]) -> str:
    provider = meta.get("system")
    return provider if isinstance(provider, str) else ""


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
    if meta.get("cost_source") != source:
        ag["meta"] = {**meta, "cost_source": source}


def _is_charged(amount: Any) -> bool:
    return type(amount) in _NUMBERS and amount != 0


def _count(said: Any) -> float:
    """Return the number of tokens; 0 if it is not a number, or negative."""
    return said if type(said) in _NUMBERS and said > 0 else 0
