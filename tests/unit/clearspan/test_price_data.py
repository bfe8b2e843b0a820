"""Price data of the package ``litellm``, read as a price table."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson
import pytest

from clearspan.price_data import MEMBER, read_price_data
from common.prices.file import InvalidPrices
from common.prices.table import Price, PriceTable

TODAY = date(2026, 11, 27)


def facts(provider: str, *per_million: float, mode: str = "chat", **more: Any) -> dict[str, Any]:
    """What the data says of a model: its prices for input and output, per token."""
    of_input, of_output = per_million
    return {
        "litellm_provider": provider,
        "mode": mode,
        "input_cost_per_token": of_input / 1e6,
        "output_cost_per_token": of_output / 1e6,
        **more,
    }


def table(folder: Path, models: Any) -> PriceTable:
    path = folder / "model_prices_and_context_window.json"
    path.write_bytes(orjson.dumps(models))
    return read_price_data(path, as_of=TODAY)


def names(folder: Path, models: Any) -> list[str]:
    return [price.model for price in table(folder, models).prices]


def test_prices_are_those_of_a_million_tokens(tmp_path: Path) -> None:
    sonnet = facts(
        "anthropic", 3, 15, cache_read_input_token_cost=3e-7, cache_creation_input_token_cost=3.75e-6, max_tokens=1
    )
    read = table(tmp_path, {"sample_spec": {"mode": "one of: chat"}, "claude-sonnet-4-5": sonnet})

    assert read.prices == (Price("anthropic", "claude-sonnet-4-5", 3.0, 0.3, 3.75, 15.0),)
    assert (read.source, read.as_of) == ("prices 2026-11-27", TODAY)


def test_tokens_of_a_cache_without_a_price_cost_as_the_input(tmp_path: Path) -> None:
    assert table(tmp_path, {"gpt-4": facts("openai", 30, 60)}).prices[0].amounts == (30.0, 30.0, 30.0, 60.0)


def test_name_of_a_maker_loses_its_prefix_and_that_of_a_host_keeps_it(tmp_path: Path) -> None:
    models = {
        "mistral/mistral-small-2603": facts("mistral", 0.15, 0.6),
        "mistral/glm-5-2": facts("mistral", 1.4, 4.4),
        "azure/gpt-4o": facts("azure", 2.5, 10),
        "Fireworks_AI/accounts/fireworks/models/x": facts("fireworks_ai", 1, 1),
        "reseller/gpt-4o": facts("reseller", 1, 1),
        "together-ai-up-to-4b": facts("together_ai", 0.1, 0.1),
    }

    assert names(tmp_path, models) == [
        "azure/gpt-4o",
        "fireworks_ai/accounts/fireworks/models/x",
        "mistral-small-2603",
        "mistral/glm-5-2",
    ]


def test_model_without_a_price_for_tokens_of_text_is_left_out(tmp_path: Path) -> None:
    models = {
        "gpt-4o": facts("openai", 2.5, 10),
        "free": facts("openai", 0, 0),
        "gpt-audio": facts("openai", 2.5, 10, output_cost_per_audio_token=6.4e-5),
        "gemini-flash": facts("gemini", 0.3, 2.5, input_cost_per_audio_token=1e-6),
        "gpt-realtime": facts("openai", 4, 16, mode="realtime"),
        "whisper": {"litellm_provider": "openai", "mode": "audio_transcription", "input_cost_per_second": 1e-4},
        "rerank": {"litellm_provider": "cohere", "mode": "rerank", "input_cost_per_query": 0.002},
    }

    assert names(tmp_path, models) == ["gemini-flash", "gpt-4o"]


def test_model_is_found_if_all_its_snapshots_cost_the_same(tmp_path: Path) -> None:
    models = {
        "ft:gpt-4o-mini-2024-07-18": facts("openai", 0.3, 1.2),
        "ft:gpt-4o-2024-08-06": facts("openai", 3.75, 15),
        "ft:gpt-4o-2024-11-20": facts("openai", 3.75, 16),
        "gemini-9-preview": facts("gemini", 1, 2),
        "chat-latest": facts("openai", 5, 30),
    }
    read = table(tmp_path, models)

    assert {price.model for price in read.prices} == {*models, "ft:gpt-4o-mini"}
    assert read.price_of("ft:gpt-4o-mini:org::id") == ("openai", "ft:gpt-4o-mini", 0.3, 0.3, 0.3, 1.2)


def test_wheel_is_read(tmp_path: Path) -> None:
    path = tmp_path / "litellm-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as wheel:
        wheel.writestr(MEMBER, orjson.dumps({"gpt-4o": facts("openai", 2.5, 10)}))

    assert [price.model for price in read_price_data(path, as_of=TODAY).prices] == ["gpt-4o"]


@pytest.mark.parametrize(("comment", "day"), [("", TODAY), ("# as of 2026-10-01\n", date(2026, 10, 1))])
def test_table_keeps_its_own_date(tmp_path: Path, comment: str, day: date) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"{comment}provider,model,input,cached_input,cache_write,output\nme,mine,0,,,\n")
    read = read_price_data(path, as_of=TODAY)

    assert (read.as_of, read.source) == (day, f"prices {day}")
    assert read.prices == (Price("me", "mine", 0.0, 0.0, 0.0, 0.0),)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", r"is not JSON"),
        (b"[]", r"must hold one JSON object"),
        (b'{"gpt-4o": 5}', r"must hold one JSON object"),
        (b"{}", r"holds no prices"),
        (b"\xff\xfe", r"cannot be read"),
        (b"", r"holds no prices"),
        (
            orjson.dumps({"gpt-4o": facts("openai", 2.5, 10, cache_read_input_token_cost="cheap")}),
            r"'gpt-4o': cache_read_input_token_cost must be US dollars between 0 and 1, not 'cheap'",
        ),
        (orjson.dumps({"gpt-4o": facts("openai", -1, 10)}), r"'gpt-4o': input_cost_per_token must be US dollars"),
        (orjson.dumps({"gpt-4o": facts("openai", 1e7, 10)}), r"'gpt-4o': input_cost_per_token must be US dollars"),
    ],
)
def test_file_that_cannot_be_used_is_rejected(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)

    with pytest.raises(InvalidPrices, match=sentence):
        read_price_data(path, as_of=TODAY)


def test_wheel_of_another_package_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "other.whl"
    with ZipFile(path, "w") as wheel:
        wheel.writestr("other/data.json", "{}")

    with pytest.raises(InvalidPrices, match="does not contain litellm/model_prices"):
        read_price_data(path, as_of=TODAY)


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidPrices, match="cannot be read"):
        read_price_data(tmp_path / "nowhere.json", as_of=TODAY)
