"""Which row of the price table stands for the name that a span gives its model."""

from __future__ import annotations

import pytest

from common.prices.file import list_prices
from common.prices.table import MODEL_CHARS_MAX, Price, PriceTable


def a_price(provider: str, model: str, dollars: float = 1.0) -> Price:
    return Price(provider, model, dollars, dollars, dollars, 2 * dollars)


TABLE = PriceTable(
    tuple(
        a_price(provider, model)
        for provider, model in (
            ("openai", "gpt-4o"),
            ("openai", "gpt-4o-2024-05-13"),
            ("openai", "gpt-4o-mini"),
            ("openai", "ft:gpt-4o-mini"),
            ("openai", "gpt-4-turbo"),
            ("openai", "gpt-4-0125-preview"),
            ("azure", "azure/gpt-35-turbo"),
            ("azure", "azure/eu/gpt-4o"),
            ("anthropic", "claude-3-haiku"),
            ("anthropic", "claude-3-5-haiku"),
            ("anthropic", "claude-3-5-sonnet"),
            ("anthropic", "claude-sonnet-4-5"),
            ("anthropic", "claude-sonnet-4"),
            ("bedrock", "us.anthropic.claude-sonnet-4-5"),
            ("amazon", "nova-pro"),
            ("amazon", "titan-embed-text"),
            ("amazon", "titan-embed-text-v2"),
            ("google", "gemini-2.0-flash"),
            ("google", "gemini-2.5-pro"),
            ("google", "gemini-2.5-flash-preview-tts"),
            ("mistral", "mistral-small"),
            ("groq", "groq/llama-3.3-70b-versatile"),
        )
    ),
    source="prices 2026-11-27",
)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        (" GPT-4o-mini ", "gpt-4o-mini"),
        # dates, numbers, versions, previews
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),  # has a price of its own
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("gpt-4-turbo-preview", "gpt-4-turbo"),
        ("gpt-4-0125-preview", "gpt-4-0125-preview"),
        ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("gemini-2.5-pro-preview-09-2025", "gemini-2.5-pro"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
        # providers and gateways
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("litellm_proxy/openai/gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openrouter/anthropic/claude-sonnet-4", "claude-sonnet-4"),
        ("azure/gpt-4o", "gpt-4o"),
        ("azure/eu/gpt-4o-2024-08-06", "azure/eu/gpt-4o"),
        ("proxy/azure/gpt-35-turbo", "azure/gpt-35-turbo"),
        ("models/gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("gemini/gemini-2.5-pro", "gemini-2.5-pro"),
        ("mistral/mistral-small-latest", "mistral-small"),
        # Vertex
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-sonnet-4@default", "claude-sonnet-4"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
        ("publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"),
        (
            "projects/p/locations/us-east5/publishers/anthropic/models/claude-3-5-sonnet-v2@20241022",
            "claude-3-5-sonnet",
        ),
        # Bedrock
        ("anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        ("anthropic.claude-3-haiku-20240307-v1:0:48k", "claude-3-haiku"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5"),
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("global.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("us-gov.anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        ("bedrock/amazon.nova-pro-v1:0", "nova-pro"),
        ("amazon.titan-embed-text-v2:0", "titan-embed-text-v2"),
        ("amazon.titan-embed-text-v1", "titan-embed-text"),
        ("arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "us.anthropic.claude-sonnet-4-5",
        ),
        # fine-tuned
        ("ft:gpt-4o-mini-2024-07-18:org::id", "ft:gpt-4o-mini"),
        ("openai/ft:gpt-4o-mini:org:name:id", "ft:gpt-4o-mini"),
        ("ft:gpt-4o-mini-2024-07-18:org::id:ckpt-step-100", "ft:gpt-4o-mini"),
    ],
)
def test_row_covers_the_names_of_its_model(name: str, model: str) -> None:
    price = TABLE.price_of(name)

    assert price is not None
    assert price.model == model


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "my-own-model",
        "gpt-40",
        "gpt-us.4o",
        "gpt-5",
        "gpt-4o:free",
        # audio: its tokens cost more than those of text
        "gpt-4o-audio-preview",
        "gpt-4o-audio-preview-2024-12-17",
        "gpt-4o-realtime-preview",
        "gpt-4o-mini-tts",
        "gpt-4o-transcribe",
        "gemini-2.5-pro-preview-tts",
        # fine-tuned, without a row that begins with `ft:`
        "ft:gpt-4o-2024-08-06:org::id",
        "ft:",
        "gpt-4o-mini-2024-07-18.ft-0123456789abcdef",
        "tunedModels/gemini-2.0-flash",
        "arn:aws:bedrock:us-east-1:123456789012:custom-model/anthropic.claude-3-haiku-20240307-v1:0:200k/abcdef123456",
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abcdef123456",
        # self-hosted
        "ollama/mistral-small",
        "hosted_vllm/mistral-small",
        "lm_studio/mistralai/mistral-small",
    ],
)
def test_unknown_name_has_no_row(name: str) -> None:
    assert TABLE.price_of(name) is None


@pytest.mark.parametrize(
    ("provider", "name", "model"),
    [
        ("azure.ai.openai", "gpt-35-turbo", "azure/gpt-35-turbo"),
        ("azure.ai.openai", "gpt-4o", "gpt-4o"),
        ("groq", "llama-3.3-70b-versatile", "groq/llama-3.3-70b-versatile"),
        ("groq", "groq/llama-3.3-70b-versatile", "groq/llama-3.3-70b-versatile"),
        # frameworks are no providers
        ("gcp.vertex.agent", "gemini-2.5-pro", "gemini-2.5-pro"),
        ("langchain", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("semantic_kernel", "openai/gpt-4o", "gpt-4o"),
        ("x" * (MODEL_CHARS_MAX + 1), "gpt-4o", "gpt-4o"),
    ],
)
def test_provider_of_the_span_finds_its_row_and_hides_none(provider: str, name: str, model: str) -> None:
    price = TABLE.price_of(name, provider)

    assert price is not None
    assert price.model == model


def test_name_without_its_provider_has_no_row_of_that_provider() -> None:
    assert TABLE.price_of("llama-3.3-70b-versatile") is None
    assert TABLE.price_of("llama-3.3-70b-versatile", "together_ai") is None


@pytest.mark.parametrize("provider", ["ollama", "vllm"])
def test_self_hosted_model_has_only_a_row_of_its_provider(provider: str) -> None:
    table = PriceTable((a_price("mistral", "mistral-small"), a_price("ollama", "llama3", 0.0)), "prices own")

    assert table.price_of("mistral-small", provider) is None
    assert (table.price_of("llama3", provider) is None) is (provider != "ollama")


def test_prefixed_name_may_have_its_own_row() -> None:
    table = PriceTable((a_price("azure", "azure/gpt-4o"), a_price("openai", "gpt-4o")), "prices own")

    rows = [table.price_of(model) for model in ("azure/gpt-4o", "openai/gpt-4o")]

    assert [row and row.provider for row in rows] == ["azure", "openai"]


@pytest.mark.parametrize("name", ["gpt-4o-mini", "claude-sonnet-4-5-20250929", "gemini-2.5-flash", "mistral-small"])
def test_built_in_table_has_the_usual_models(name: str) -> None:
    assert list_prices().price_of(name) is not None
