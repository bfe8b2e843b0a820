"""LiteLLM's own callback: the GenAI conventions with its call types as operations, the costs that it computed, and the
identities of its proxy.

The span of the raw request below each call reports the same call again, as texts of Python: it stays a ``task``.
"""

from __future__ import annotations

from ast import literal_eval
from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.messages import messages_of
from ingest.semconv.rows import Convention, Converter, MappingError, Reason, Row

_COSTS = "metrics.costs.incremental."
_SAME_SPAN = r"litellm\.|metadata\.user_api_key_"
_PROXY = "metadata.user_api_key_"
_CALL = "function_call"
_NUMBERED_CALLS = r"gen_ai\.completion\.\d+\.function_call\."

_CALL_TYPES: Final = {
    "acompletion": "chat",
    "aembedding": "embedding",
    "agenerate_content": "completion",
    "agenerate_content_stream": "completion",
    "anthropic_messages": "chat",
    "arerank": "rerank",
    "aresponses": "chat",
    "asearch": "query",
    "atext_completion": "completion",
    "avector_store_search": "query",
    "call_mcp_tool": "tool",
    "completion": "chat",
    "embedding": "embedding",
    "generate_content_stream": "completion",
    "responses": "chat",
    "search": "query",
    "text_completion": "completion",
    "vector_store_search": "query",
}

_PYTHON_CHARACTERS_MAX: Final = 4_096
"""Maximum length of a text of Python that is read: its parser is slow."""

_KEY_MEMBERS: Final = ("team_id", "team_alias", "org_id", "alias", "user_id")


def _answer(sent: Value, numbered: Value) -> dict[str, Any] | None:
    """Return the answer with the tool calls that the messages lack. Numbers count the calls of one answer."""
    found = to.elements_of(numbered)
    members = [member for member in found if isinstance(member, dict)] if isinstance(found, list) else []
    messages = messages_of([member for member in members if "role" in member] if sent is None else sent)
    calls = [member[_CALL] for member in members if _CALL in member]
    if calls and not any("tool_calls" in message for message in messages):
        (called,) = messages_of([{"role": "assistant", "tool_calls": calls}])
        first, *others = messages or [{"role": "assistant"}]
        messages = [{**first, "tool_calls": called["tool_calls"]}, *others]
    return {"messages": messages} if messages else None


def _usage_details(prompt: Value, sent: Value) -> dict[str, int] | None:
    """Return the tokens of the cache and of reasoning in the usage that LiteLLM sends as text of Python."""
    if prompt is None or not sent:
        return None
    usage = _python_object(sent)
    of_prompt, of_completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    details = {
        "cached": _count(of_prompt, "cached_tokens"),
        "cache_write": _count(of_prompt, "cache_write_tokens", "cache_creation_tokens"),
        "reasoning": _count(of_completion, "reasoning_tokens"),
    }
    return {name: count for name, count in details.items() if count is not None}


def _python_object(sent: Value) -> dict[str, Any]:
    found = to.parsed_if_json(sent)
    if isinstance(found, str) and len(found) <= _PYTHON_CHARACTERS_MAX:
        try:
            found = literal_eval(found)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise MappingError(Reason.NOT_AN_OBJECT) from None
    if not isinstance(found, dict):
        raise MappingError(Reason.NOT_AN_OBJECT)
    return found


def _count(details: Any, *names: str) -> int | None:
    count = to.first_of(details, *names) if isinstance(details, dict) else None
    return count if type(count) is int and count >= 0 else None


def _first_text(*sent: Value) -> str | None:
    """Return the first text that is not empty."""
    return next((text for text in map(to.as_text, (value for value in sent if value is not None)) if text), None)


def _key_members(*sent: Value) -> dict[str, Any]:
    return {f"user_api_key_{name}": value for name, value in zip(_KEY_MEMBERS, sent, strict=True) if value}


_CALL_TYPE = Converter(
    to.word(_CALL_TYPES).says,  # what is no text is counted where the key is read as an operation of GenAI
    lambda value: _CALL_TYPES.get(value) if isinstance(value, str) else None,
)
_ANSWER = Converter("messages, the first with the calls of `gen_ai.completion.*.function_call`", _answer)
_USAGE_DETAILS = Converter("the tokens of the cache and of reasoning, from text of Python", _usage_details)
_USER = Converter("the first that is not empty", _first_text)
_OF_KEY = Converter("those that are not empty, as `user_api_key_…`", _key_members)

LITELLM: Final = Convention(
    "litellm",
    "LiteLLM",
    (
        Row("llm.request.type", "type.span", _CALL_TYPE, requires=_SAME_SPAN),
        Row("gen_ai.operation.name", "type.span", _CALL_TYPE),
        Row(
            ("gen_ai.output.messages", "gen_ai.completion.*"),
            "data.outputs",
            _ANSWER,
            note="if there are such calls",
            requires=_NUMBERED_CALLS,
        ),
        Row(
            ("gen_ai.usage.input_tokens", "metadata.usage_object"),
            "metrics.tokens.incremental.*",
            _USAGE_DETAILS,
            note="of a call with tokens",
            requires=r"metadata\.usage_object",
        ),
        Row("gen_ai.cost.input_cost", _COSTS + "prompt", to.AMOUNT),
        Row("gen_ai.cost.output_cost", _COSTS + "completion", to.AMOUNT),
        Row("gen_ai.cost.total_cost", _COSTS + "total", to.AMOUNT),
        Row(
            (_PROXY + "end_user_id", "llm.user", _PROXY + "user_id"),
            "user.id",
            _USER,
            note="the end user, else the owner of the key",
            requires=r"metadata\.user_api_key_",
        ),
        Row(tuple(_PROXY + name for name in _KEY_MEMBERS), "meta.*", _OF_KEY, note="team, organization and owner"),
    ),
)
