"""Prices of models, and the costs of spans to which no instrumentation gave any."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from common.prices.file import DOLLARS_MAX, list_prices, read_prices
from common.prices.table import PriceTable
from common.span import SPAN_TYPES, Span
from ingest.ag import canonical_ag
from ingest.normalize import normalize
from ingest.semconv.prices import GIVEN, UNPRICED, add_costs, cost_of

HEADER = "provider,model,input,cached_input,cache_write,output\n"


def an_ag(
    *, span_type: str = "chat", model: str = "gpt-4o-mini", tokens: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "type": {"trace": "invocation", "span": span_type},
        "data": {},
        "metrics": {
            "duration": {},
            "errors": {},
            "tokens": {"incremental": tokens or {"prompt": 27, "completion": 9}},
            "costs": {},
        },
        "meta": {"response": {"model": model}},
    }


def priced(ag: dict[str, Any]) -> tuple[Any, Any]:
    """Return the cost that is written, and its source."""
    add_costs(ag, list_prices())
    return ag["metrics"]["costs"].get("incremental"), ag["meta"].get("cost_source")


def a_file(folder: Path, *lines: str) -> Path:
    path = folder / "prices.csv"
    path.write_text(HEADER + "".join(line + "\n" for line in lines))
    return path


def cost(model: str, **tokens: Any) -> float | None:
    price = list_prices().price_of(model)
    assert price is not None
    found = cost_of(price, tokens)
    return None if found is None else found.total


def test_model_call_gets_the_cost_of_its_tokens() -> None:
    """Pydantic AI computes the same: 27 prompt tokens at 0.15 and 9 completion tokens at 0.60 dollars per million."""
    written = {"prompt": 4.05e-06, "completion": 5.4e-06, "total": 9.45e-06}

    assert priced(an_ag()) == (written, list_prices().source)


def test_tokens_from_the_cache_are_part_of_the_prompt_and_cost_less() -> None:
    """LiteLLM computes the same for this call (sample ``agenta-litellm``)."""
    assert cost("gpt-4o-mini", prompt=27, completion=16, cache_read=12) == 1.275e-05
    assert cost("gpt-4o-mini", prompt=27, completion=16, cached=12) == 1.275e-05


def test_tokens_written_to_the_cache_cost_more() -> None:
    """16 plain, 120 read and 30 written of 166 (sample ``openinference-anthropic``)."""
    tokens = {"prompt": 166, "completion": 22, "cached": 120, "cache_write": 30}

    assert cost("claude-sonnet-4-5", **tokens) == round((16 * 3 + 120 * 0.3 + 30 * 3.75 + 22 * 15) / 1e6, 12)
    assert cost("claude-sonnet-4-5", prompt=40, cache_creation=30) == round((10 * 3 + 30 * 3.75) / 1e6, 12)


def test_cached_tokens_beyond_the_prompt_are_added_to_it() -> None:
    assert cost("claude-sonnet-4-5", prompt=16, completion=0, cached=120) == round((16 * 3 + 120 * 0.3) / 1e6, 12)
    assert cost("claude-sonnet-4-5", prompt=120, completion=0, cached=120) == round(120 * 0.3 / 1e6, 12)
    both = cost("claude-sonnet-4-5", prompt=100, cached=80, cache_write=50)
    assert both == round((100 * 3 + 80 * 0.3 + 50 * 3.75) / 1e6, 12)


def test_completion_tokens_without_prompt_tokens_have_a_cost() -> None:
    assert cost("gpt-4o-mini", prompt=0, completion=1_000_000) == 0.6


def test_embedding_may_report_only_total_tokens() -> None:
    assert cost("text-embedding-3-small", total=1_000_000) == 0.02
    assert cost("text-embedding-3-small", prompt=1_000_000, total=2_000_000) == 0.02
    assert cost("gpt-4o-mini", total=1_000_000) is None


@pytest.mark.parametrize(
    "tokens", [{"prompt": 0, "completion": 0}, {"prompt": -5}, {"prompt": "27"}, {"prompt": True}, {"reasoning": 5}]
)
def test_values_that_are_not_token_counts_cost_nothing(tokens: dict[str, Any]) -> None:
    assert priced(an_ag(tokens=tokens)) == (None, None)


def test_absurd_tokens_cost_nothing() -> None:
    """At the limit, and past it."""
    tokens = int(DOLLARS_MAX / 0.15) * 1_000_000

    assert cost("gpt-4o-mini", prompt=tokens) is not None
    assert cost("gpt-4o-mini", prompt=tokens + 1_000_000_000) is None


@pytest.mark.parametrize(
    "model",
    [
        "",
        "my-own-model",
        "gpt-4o-audio-preview",
        "gpt-4o-mini-tts",
        "ft:gpt-0:org::id",
        "gpt-40",
        "gpt-us.4o",
    ],
)
def test_unknown_model_has_no_cost(model: str) -> None:
    assert priced(an_ag(model=model)) == (None, None)


@pytest.mark.parametrize("before", ["ollama/", "ollama_chat/", "hosted_vllm/", "lm_studio/mistralai/", "local/"])
def test_self_hosted_model_has_no_list_price(before: str) -> None:
    assert list_prices().price_of("mistral-small") is not None
    assert priced(an_ag(model=f"{before}mistral-small")) == (None, None)


@pytest.mark.parametrize("model", ["mistral-small", "my-own-model"])
def test_provider_may_mark_a_model_as_self_hosted(model: str) -> None:
    ag = an_ag(model=model)
    ag["meta"]["system"] = "ollama"

    assert priced(ag) == (None, None)


@pytest.mark.parametrize("provider", ["mistral_ai", "", None, 5, ["ollama"], {}])
def test_other_providers_do_not_matter(provider: Any) -> None:
    ag = an_ag(model="mistral-small")
    ag["meta"]["system"] = provider

    assert priced(ag)[0] is not None


def test_custom_row_prices_a_self_hosted_model(tmp_path: Path) -> None:
    table = read_prices(a_file(tmp_path, "ollama,llama3,1,,,2", "gpu,ollama/phi,1,,,2"))
    named, provided = an_ag(model="ollama/phi"), an_ag(model="llama3")
    provided["meta"]["system"] = "ollama"
    for ag in (named, provided):
        add_costs(ag, table)

        assert ag["metrics"]["costs"]["incremental"]["total"] == 4.5e-05


@pytest.mark.parametrize("span_type", SPAN_TYPES)
def test_tokens_of_any_span_have_a_cost(span_type: str) -> None:
    """Only an agent may report tokens. Where spans below it do too, its list price adds nothing."""
    assert priced(an_ag(span_type=span_type))[0] is not None


@pytest.mark.parametrize(
    ("sent", "source", "is_computed"),
    [
        (None, None, True),
        (None, "mine", True),
        ({"total": 0.5}, None, False),
        ({"total": 0.5}, GIVEN, False),
        ({"total": 0.5}, "mine", False),
        ({"total": 0.5}, 4, False),
        ({"total": 0.5}, list_prices().source, True),
    ],
)
def test_cost_is_computed_if_it_is_a_list_price(sent: Any, source: Any, is_computed: bool) -> None:
    ag = an_ag()
    if sent is not None:
        ag["metrics"]["costs"]["incremental"] = sent
    if source is not None:
        ag["meta"]["cost_source"] = source

    assert add_costs(ag, list_prices()) is is_computed
    assert add_costs(ag, list_prices()) is is_computed


def test_sent_cost_wins_and_is_marked() -> None:
    ag = an_ag()
    ag["metrics"]["costs"]["incremental"] = {"total": 0.5}

    assert priced(ag) == ({"total": 0.5}, GIVEN)


@pytest.mark.parametrize("zero", [{"total": 0}, {"prompt": 0.0, "completion": 0, "total": 0.0}])
def test_sent_cost_of_zero_is_none_if_the_model_has_a_price(zero: dict[str, Any]) -> None:
    ag = an_ag()
    ag["metrics"]["costs"]["incremental"] = zero

    assert priced(ag) == ({"prompt": 4.05e-06, "completion": 5.4e-06, "total": 9.45e-06}, list_prices().source)


@pytest.mark.parametrize(
    "ag",
    [an_ag(model="my-own-model"), an_ag(tokens={"prompt": 0, "completion": 0})],
    ids=["unknown model", "no tokens"],
)
def test_sent_cost_of_zero_is_kept_without_a_price(ag: dict[str, Any]) -> None:
    ag["metrics"]["costs"]["incremental"] = {"total": 0}

    assert priced(ag) == ({"total": 0}, GIVEN)


def test_own_price_of_zero_stays_zero(tmp_path: Path) -> None:
    table = read_prices(a_file(tmp_path, "# as of 2026-11-27", "me,gpt-4o-mini,0,,,0"))
    sent, missing = an_ag(), an_ag()
    sent["metrics"]["costs"]["incremental"] = {"total": 0}
    for ag in (sent, missing):
        add_costs(ag, table)
    again = canonical_ag(copy.deepcopy(missing), trace_type="invocation")
    add_costs(again, list_prices())  # as if it was published again, to another installation

    assert (sent["metrics"]["costs"]["incremental"], sent["meta"]["cost_source"]) == ({"total": 0}, GIVEN)
    assert missing["metrics"]["costs"]["incremental"] == {"prompt": 0, "completion": 0, "total": 0}
    assert again == missing


def test_zero_of_a_library_is_replaced_and_kept_as_it_was_sent() -> None:
    """OpenLIT sends 0 if its price list lacks the model or cannot be fetched."""
    sent = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.cost": 0,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
    }
    span = Span(bytes(15) + b"a", bytes(7) + b"b", None, "chat gpt-4o-mini", 0, 0, 0, 0, None, sent)
    (normalized,) = normalize([span])
    attributes = normalized.attributes

    assert attributes["ag"]["metrics"]["costs"]["incremental"] == {
        "prompt": 1.5e-05,
        "completion": 1.2e-05,
        "total": 2.7e-05,
    }
    assert attributes["ag"]["meta"]["cost_source"] == list_prices().source
    assert attributes["gen_ai"]["usage"]["cost"] == 0


def test_model_without_a_price_is_named() -> None:
    ag = an_ag(model="my-own-model")

    assert priced(ag) == (None, None)
    assert ag["meta"][UNPRICED] == "my-own-model"


@pytest.mark.parametrize("provider", ["ollama", "vllm"])
def test_self_hosted_model_without_a_price_is_named(provider: str) -> None:
    ag = an_ag(model="mistral-small")
    ag["meta"]["system"] = provider
    add_costs(ag, list_prices())

    assert ag["meta"][UNPRICED] == "mistral-small"


@pytest.mark.parametrize(
    "ag",
    [
        an_ag(),
        an_ag(model=""),
        an_ag(model="my-own-model", tokens={"prompt": 0, "completion": 0}),
        an_ag(model="my-own-model", tokens={"reasoning": 5}),
        an_ag(model="my-own-model", span_type="tool"),
    ],
    ids=["known", "no model", "no tokens", "other tokens", "no model call"],
)
def test_nothing_is_named_without_a_model_or_tokens(ag: dict[str, Any]) -> None:
    add_costs(ag, list_prices())

    assert UNPRICED not in ag["meta"]


def test_model_with_a_sent_cost_is_not_named() -> None:
    ag = an_ag(model="my-own-model")
    ag["metrics"]["costs"]["incremental"] = {"total": 0.5}
    add_costs(ag, list_prices())

    assert UNPRICED not in ag["meta"]


def test_model_that_has_a_price_by_now_is_no_longer_named(tmp_path: Path) -> None:
    ag = an_ag(model="my-own-model")
    add_costs(ag, list_prices())
    add_costs(ag, list_prices())
    assert ag["meta"][UNPRICED] == "my-own-model"

    add_costs(ag, read_prices(a_file(tmp_path, "me,my-own-model,1,,,2")))

    assert UNPRICED not in ag["meta"]
    assert ag["metrics"]["costs"]["incremental"]["total"] == 4.5e-05


def test_cost_that_is_not_a_number_is_ignored() -> None:
    ag = an_ag()
    ag["metrics"]["costs"]["incremental"] = {"currency": "EUR"}

    assert priced(ag)[0] == {"currency": "EUR", "prompt": 4.05e-06, "completion": 5.4e-06, "total": 9.45e-06}


def test_response_model_is_priced_before_the_requested_model() -> None:
    ag = an_ag(model="gpt-4o")
    ag["meta"]["request"] = {"model": "gpt-4o-mini"}
    requested = {**an_ag(), "meta": {"request": {"model": "gpt-4o-mini"}}}
    set_ = {**an_ag(), "meta": {}, "data": {"parameters": {"model": "gpt-4o-mini"}}}

    assert priced(ag)[0]["total"] == (27 * 2.5 + 9 * 10) / 1e6
    assert priced(requested)[0]["total"] == priced(set_)[0]["total"] == 9.45e-06


@pytest.mark.parametrize("response", ["gpt-4o", {}, {"model": ""}, {"model": 4}, {"model": {"name": "gpt-4o"}}])
def test_requested_model_is_priced_if_the_response_names_none(response: Any) -> None:
    ag = {**an_ag(), "meta": {"response": response, "request": {"model": "gpt-4o-mini"}}}

    assert priced(ag)[0]["total"] == 9.45e-06


def test_adding_costs_again_changes_nothing() -> None:
    ag = an_ag()
    add_costs(ag, list_prices())
    again = canonical_ag(copy.deepcopy(ag), trace_type="invocation")
    add_costs(again, PriceTable((), source="other prices"))

    assert again == ag
