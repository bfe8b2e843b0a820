"""Price data of the package ``litellm``, as a price table (docs/prices.md).

Its file ``model_prices_and_context_window.json`` is one object: names of models, and of each the prices of a token and
much else. A model is in the table if it is called for text, costs something per token, and is of a provider that is
listed here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile, is_zipfile

import orjson

from common.limits import MIB
from common.prices.file import DOLLARS_MAX, PRICES_MAX, InvalidPrices, read_prices
from common.prices.names import without_snapshot
from common.prices.table import MODEL_CHARS_MAX, Price, PriceTable

MEMBER: Final = "litellm/model_prices_and_context_window_backup.json"
"""The data in a wheel of the package."""

BYTES_MAX: Final = 64 * MIB
MODES: Final = frozenset({"chat", "completion", "responses", "embedding", "rerank"})
"""What models are called for whose tokens are those of text."""

MAKERS: Final = {
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "google",
    "jina_ai": "jina",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "perplexity": "perplexity",
    "voyage": "voyage",
    "xai": "xai",
    "zai": "zai",
}
"""Prefixes of names that only say who made the model: the row has the name without it."""

HOSTS: Final = frozenset(
    {
        "azure",
        "azure_ai",
        "bedrock",
        "bedrock_mantle",
        "cerebras",
        "cloudflare",
        "dashscope",
        "databricks",
        "deepinfra",
        "fireworks_ai",
        "groq",
        "hyperbolic",
        "nebius",
        "oci",
        "openrouter",
        "sambanova",
        "snowflake",
        "together_ai",
        "vercel_ai_gateway",
        "vertex_ai",
        "watsonx",
    }
)
"""Prefixes of names at companies that sell models of others at prices of their own: the row has the whole name."""

_FAMILIES: Final = {
    "claude": "anthropic",
    "deepseek": "deepseek",
    "glm": "zai",
    "gpt": "openai",
    "kimi": "moonshot",
    "llama": "meta",
    "minimax": "minimax",
    "qwen": "dashscope",
    "zai": "zai",
}
"""First words of names, and the prefix of their maker: makers sell models of others, too."""

_WITHOUT_PREFIX: Final = {
    "ai21": "ai21",
    "anthropic": "anthropic",
    "bedrock": "bedrock",
    "bedrock_converse": "bedrock",
    "cohere": "cohere",
    "cohere_chat": "cohere",
    "deepseek": "deepseek",
    "gemini": "google",
    "jina_ai": "jina",
    "openai": "openai",
    "text-completion-openai": "openai",
    "vertex_ai-embedding-models": "google",
    "vertex_ai-language-models": "google",
}
"""Members ``litellm_provider`` of names without a prefix, and the providers that the table shows."""

_PER_TOKENS: Final = 1_000_000
_DIGITS: Final = 9


def read_price_data(path: Path, *, as_of: date) -> PriceTable:
    """Return the table in a file: one of ours, the JSON of the package, or a wheel of it.

    ``as_of`` is the day on which the prices applied, unless the file states it. Raises ``InvalidPrices``.
    """
    content = _content(path)
    if content is None:
        table = read_prices(path)
        day = table.as_of or as_of
        return PriceTable(table.prices, source=f"prices {day}", as_of=day)
    try:
        data = orjson.loads(content)
    except orjson.JSONDecodeError as exc:
        raise InvalidPrices(f"{path} is not JSON: {exc}.") from exc
    if not isinstance(data, dict) or not all(isinstance(facts, dict) for facts in data.values()):
        raise InvalidPrices(f"{path} must hold one JSON object: names of models, and an object for each.")
    try:
        prices = tuple(_prices(data))
    except ValueError as exc:
        raise InvalidPrices(f"{path}: {exc}.") from exc
    if not prices:
        raise InvalidPrices(f"{path} holds no prices: no model has input_cost_per_token.")
    if len(prices) > PRICES_MAX:
        raise InvalidPrices(f"{path} has {len(prices):,} prices; {PRICES_MAX:,} are allowed.")
    return PriceTable(prices, source=f"prices {as_of}", as_of=as_of)


def _content(path: Path) -> bytes | None:
    """Return the JSON of a file; ``None`` if it is a table."""
    try:
        if not is_zipfile(path):
            with path.open("rb") as file:
                content = file.read(BYTES_MAX + 1)
        else:
            with ZipFile(path) as wheel, wheel.open(MEMBER) as member:
                content = member.read(BYTES_MAX + 1)
    except KeyError as exc:
        raise InvalidPrices(f"{path} does not contain {MEMBER}, as a wheel of litellm does.") from exc
    except (OSError, BadZipFile) as exc:
        raise InvalidPrices(f"{path} cannot be read: {exc}.") from exc
    if len(content) > BYTES_MAX:
        raise InvalidPrices(f"{path} has more than {BYTES_MAX // MIB} MiB of data.")
    return content if content.lstrip().startswith((b"{", b"[")) else None


def _prices(data: Mapping[str, Any]) -> Iterator[Price]:
    """Yield the prices of the models in the data, each name once. Raises ``ValueError``."""
    prices: dict[str, Price] = {}
    for model, facts in data.items():
        if facts.get("mode") not in MODES or facts.get("input_cost_per_token") is None or len(model) > MODEL_CHARS_MAX:
            continue
        named = _named(model.lower(), facts)
        price = None if named is None else _price(*named, facts)
        if price is not None and not _has_audio(facts):
            prices.setdefault(price.model, price)
    yield from sorted([*prices.values(), *_without_snapshot(prices)])


def _without_snapshot(prices: Mapping[str, Price]) -> Iterator[Price]:
    """Yield prices of models that the data names only by their snapshots, if these all cost the same.

    The first price of a model that is only a preview may be another one. A single word may be the name of a deployment.
    """
    snapshots: dict[str, list[Price]] = defaultdict(list)
    for price in prices.values():
        base = without_snapshot(price.model)
        if base not in prices and "-" in base and "preview" not in price.model:
            snapshots[base].append(price)
    for base, same in snapshots.items():
        if len({price.amounts for price in same}) == 1:
            yield same[0]._replace(model=base)


def _named(model: str, facts: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the provider and the name of a row, ``None`` if the model is of another provider."""
    prefix, has_prefix, name = model.partition("/")
    if not has_prefix:
        provider = _WITHOUT_PREFIX.get(str(facts.get("litellm_provider")))
        return None if provider is None else (provider, model)
    maker = _FAMILIES.get(name.partition("-")[0], prefix)
    if prefix in MAKERS and "/" not in name and maker == prefix:
        return MAKERS[prefix], name
    if prefix in HOSTS or prefix in MAKERS:
        return prefix, model
    return None


def _price(provider: str, model: str, facts: Mapping[str, Any]) -> Price | None:
    """Return a row, ``None`` if nothing is charged: that means unknown more often than free."""
    given = {
        name: _dollars(model, name, facts.get(name))
        for name in (
            "input_cost_per_token",
            "cache_read_input_token_cost",
            "cache_creation_input_token_cost",
            "output_cost_per_token",
        )
    }
    of_input, cached, written, output = given.values()
    if not of_input and not output:
        return None
    of_input = of_input or 0.0
    return Price(
        provider,
        model,
        of_input,
        of_input if cached is None else cached,
        of_input if written is None else written,
        output or 0.0,
    )


def _dollars(model: str, name: str, per_token: Any) -> float | None:
    """Return dollars per million tokens."""
    if per_token is None:
        return None
    is_number = isinstance(per_token, int | float) and not isinstance(per_token, bool)
    if not is_number or not 0 <= per_token <= DOLLARS_MAX / _PER_TOKENS:
        raise ValueError(f"{model!r}: {name} must be US dollars between 0 and 1, not {per_token!r}")
    return round(float(per_token) * _PER_TOKENS, _DIGITS)


def _has_audio(facts: Mapping[str, Any]) -> bool:
    """Whether the model answers in audio at another price: spans do not say which tokens are audio."""
    audio = facts.get("output_cost_per_audio_token")
    return audio is not None and audio != facts.get("output_cost_per_token")
