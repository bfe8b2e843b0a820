"""Converters of single values that several conventions need, and what converters are made of.

Counts, amounts, texts, objects, words of a vocabulary. Messages are in ``messages.py``, tools in ``tools.py``; a
converter that one convention alone needs is in the file of the convention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final, TypeGuard

from common.json_values import LEVELS_MAX, NotJson, number_in, read_json, scalar_text
from common.span import Value
from ingest.semconv.rows import Converter, MappingError, Reason
from ingest.semconv.vocabulary import finish_reason_named, provider_named

RESERVED_META: Final = frozenset(
    {"configuration", "cost_source", "counted_in", "request", "response", "system", "tool", "unpriced_model"}
)
"""Members of ``ag.meta`` with a meaning of their own: users' metadata of these names stays in the attributes."""

REMEMBERED_MAX: Final = 256
REMEMBERED_CHARACTERS_MAX: Final = 8_192
"""Maximum length of a remembered text. With the number of texts it bounds the memory of a converter: 20 MB at worst."""

VALUE_LEVELS_MAX: Final = 20
"""Maximum levels of a value in a message. With the levels around it in ``ag`` a response may still be published again.
"""

_OPENED = ("{", "[")


def remembered(read: Callable[[Value], Any]) -> Callable[[Value], Any]:
    """Cache ``read`` for texts that a program sends with each of its calls, such as its tools and settings.

    All spans that sent the text share the result. Like everything that was sent, it is never changed.
    """
    recall = lru_cache(REMEMBERED_MAX)(read)

    def read_once(value: Value) -> Any:
        if isinstance(value, str) and len(value) <= REMEMBERED_CHARACTERS_MAX:
            return recall(value)
        return read(value)

    return read_once


def is_json_text(value: Value) -> TypeGuard[str]:
    """Return whether a value is a text that begins like an object or array in JSON."""
    return isinstance(value, str) and value.startswith(_OPENED)


def parsed(text: str, *, levels_max: int = LEVELS_MAX) -> Value:
    """Return the value that a text holds as JSON. Raises ``MappingError``."""
    try:
        return read_json(text, levels_max=levels_max)
    except NotJson:
        raise MappingError(Reason.NOT_JSON) from None


def parsed_if_json(value: Value, *, levels_max: int = LEVELS_MAX) -> Value:
    """Return the object or array that a text holds, any other value unchanged: ``"4"`` may be meant as a text, ``"{}"``
    hardly is.
    """
    if is_json_text(value):
        try:
            return read_json(value, levels_max=levels_max)
        except NotJson:
            return value
    return value


def unquoted(value: Value) -> Value:
    """Return the text that a text in quotes is as JSON, any other value unchanged."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return read_json(value)
        except NotJson:
            return value
    return value


def structured(value: Value) -> Value:
    """Return what a text holds as JSON, or a value that came structured. Raises ``MappingError`` for text that is not
    JSON.
    """
    return parsed(value) if isinstance(value, str) else value


def json_or_text(value: Value, becomes: Callable[[Value], Any] = lambda found: found) -> Any:
    """Return what the value that a text holds as JSON becomes. If it is not JSON, raise ``MappingError`` with what the
    text becomes: its label or its key says JSON, but it is an answer in words, or was cut off.
    """
    try:
        return becomes(structured(value))
    except MappingError as mapping_error:
        raise MappingError(mapping_error.reason, found=becomes(value) if value else None) from mapping_error


def elements_of(value: Value) -> Value:
    """Return the array that came as an object with numbered members, because a limit on attributes dropped some of
    them.

    Any other value is unchanged.
    """
    if isinstance(value, dict) and all(key.isdecimal() for key in value):
        return [value[key] for key in sorted(value, key=lambda key: (len(key), key))]
    return value


def array_of(value: Value, reason: Reason) -> list[Any]:
    """Return the elements of an array, even if some are missing (``elements_of``). Raises ``MappingError``."""
    found = elements_of(value)
    if not isinstance(found, list):
        raise MappingError(reason)
    return found


def value_of(sent: Value) -> Value:
    """Return the object or array that a text holds, unless nested too deep; else the value as ``within`` does."""
    return parsed_if_json(sent, levels_max=VALUE_LEVELS_MAX) if isinstance(sent, str) else within(sent)


def within(value: Any, levels: int = VALUE_LEVELS_MAX) -> Any:
    """Return the value. Raises ``MappingError`` if it is nested too deep for its place."""
    kind = type(value)
    if kind is dict:
        members = value.values()
    elif kind is list:
        members = value
    else:
        return value
    if levels == 0:
        raise MappingError(Reason.TOO_DEEP)
    for member in members:
        kind = type(member)
        if kind is dict or kind is list:
            within(member, levels - 1)
    return value


def present(**members: Any) -> dict[str, Any]:
    """Return the members that are not null."""
    return {name: member for name, member in members.items() if member is not None}


def first_of(members: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these members that is present and not null."""
    for name in names:
        member = members.get(name)
        if member is not None:
            return member
    return None


def only_block(content: Value) -> Value:
    """Return the text, or the JSON, of a result that is a single block of Bedrock's Converse API; any other result
    unchanged.
    """
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and len(content[0]) == 1:
        value = first_of(content[0], "text", "json")
        return content if value is None else value
    return content


def as_text(value: Value) -> str | None:
    """Return the text of a scalar, ``None`` for an empty one. Raises ``MappingError``."""
    if isinstance(value, str):
        return value or None
    text = scalar_text(value)
    if text is None:
        raise MappingError(Reason.NOT_TEXT)
    return text


def as_object(value: Value) -> dict[str, Any]:
    """Return the object, or the one that a text holds. Raises ``MappingError``."""
    found = structured(value)
    if not isinstance(found, dict):
        raise MappingError(Reason.NOT_AN_OBJECT)
    return found


def as_inputs(value: Value) -> dict[str, Any]:
    """Return an object unchanged, anything else as ``{"value": …}``: ``ag.data.inputs`` is one (reference §3.2)."""
    return value if isinstance(value, dict) else {"value": value}


def _numeric(value: Value) -> Value:
    """Return the number that a text is, because some exporters send every value as text; any other value unchanged."""
    return number_in(value) if isinstance(value, str) else value


def _count(value: Value) -> int:
    number = value if type(value) is int else _numeric(value)
    if type(number) is int and number >= 0:
        return number
    raise MappingError(Reason.NOT_A_COUNT)


def _amount(value: Value) -> float:
    number = _numeric(value)
    if isinstance(number, int | float) and not isinstance(number, bool) and number >= 0 and isfinite(number):
        return number
    raise MappingError(Reason.NOT_AN_AMOUNT)


def _number(value: Value) -> float:
    number = _numeric(value)
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number
    raise MappingError(Reason.NOT_A_NUMBER)


def _flag(value: Value) -> Value:
    """Return a boolean that was sent as text, in whatever case; any other value unchanged."""
    return _FLAGS.get(value.lower(), value) if isinstance(value, str) else value


_FLAGS: Final = {"false": False, "true": True}


def _texts(value: Value) -> list[str] | None:
    texts = [as_text(text) for text in (value if isinstance(value, list) else [value])]
    return [text for text in texts if text is not None] or None


def _texts_of_json(value: Value) -> list[str] | None:
    """Return texts, also those of an array in JSON."""
    return _texts(structured(value) if isinstance(value, str) and value.startswith("[") else value)


def _tags(value: Value) -> dict[str, bool]:
    return dict.fromkeys(_texts_of_json(value) or (), True)


def _finish_reasons(value: Value) -> list[str] | None:
    texts = _texts_of_json(value)
    return None if texts is None else [finish_reason_named(text) for text in texts]


def _provider(value: Value) -> str | None:
    text = as_text(value)
    return None if text is None else provider_named(text)


def _members(value: Value) -> dict[str, Any]:
    """Return the members of an object that are not null."""
    return {name: member for name, member in as_object(value).items() if member is not None}


def _metadata(value: Value) -> dict[str, Any]:
    return {name: member for name, member in _members(value).items() if name not in RESERVED_META}


def _json_metadata(value: Value) -> dict[str, Any]:
    return {name: parsed_value(member) for name, member in _metadata(value).items()}


_NO_SETTINGS: Final = frozenset({"_type", "input", "messages", "model_name", "system", "tools"})
_RENAMED_SETTINGS: Final = {
    "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "maxRetries": "max_retries",
    "maxTokens": "max_tokens",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
    "stop": "stop_sequences",
    "stopSequences": "stop_sequences",
    "topK": "top_k",
    "topP": "top_p",
}


def _settings(value: Value) -> dict[str, Any]:
    return {
        _RENAMED_SETTINGS.get(name, name): member
        for name, member in _members(value).items()
        if name not in _NO_SETTINGS
    }


def parsed_value(value: Value) -> Value:
    """Return the value that a text holds as JSON, or the text if it is not JSON."""
    if not isinstance(value, str):
        return value
    try:
        return read_json(value)
    except NotJson:
        return value


def word(words: Mapping[str, str]) -> Converter:
    """Return a converter to a word of a vocabulary; other words are ignored."""

    def read(value: Value) -> str | None:
        text = as_text(value)
        return None if text is None else words.get(text)

    said = ", ".join(f"`{sent}` → `{kind}`" for sent, kind in words.items())
    return Converter(f"a kind of span: {said}", read)


def always(said: str) -> Converter:
    """Return a converter that ignores the value: the key alone has the meaning."""
    return Converter(f"`{said}`, whatever the value", lambda _: said)


COUNT = Converter("an integer of at least 0, also as text", _count)
AMOUNT = Converter("a number of at least 0, also as text", _amount)
NUMBER = Converter("a number, also as text", _number)
TEXT = Converter("a text", as_text)
TEXTS = Converter("texts", _texts)
AS_SENT = Converter("as it was sent", lambda value: value)
FLAG = Converter("a boolean, also as text", _flag)
TAGS = Converter("an object: each text becomes a tag with the value `true`", _tags)
FINISH_REASONS_READ = Converter("a list of reasons, each one word", _finish_reasons)
PROVIDER = Converter("the normalized name of the provider", remembered(_provider))
METADATA = Converter("the members of the object", _metadata)
JSON_METADATA = Converter("the members of the object, parsed where they are JSON", _json_metadata)
SETTINGS = Converter("the settings under their normalized names", remembered(_settings))
OBJECT = Converter("an object, or JSON text of an object", as_object)
INPUTS = Converter(
    "an object; other JSON and text as `value`",
    lambda value: as_inputs(parsed_if_json(value)),
    has_value_of_json=True,
)
JSON_INPUTS = Converter(
    "parsed JSON; anything but an object as `value`, also text that is not JSON",
    lambda value: json_or_text(value, as_inputs),
    has_value_of_json=True,
)
OUTPUTS = Converter("the text; parsed if it is the JSON of an object or array", parsed_if_json, has_value_of_json=True)
RESULT = Converter(
    "the text, without quotes around it; parsed if it is the JSON of an object or array",
    lambda value: unquoted(only_block(parsed_if_json(value))),
)
JSON_OUTPUTS = Converter("JSON; text that is not JSON as it is", json_or_text, has_value_of_json=True)
