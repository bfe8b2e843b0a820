"""Converters of single values: counts, amounts, texts, objects, words of a vocabulary (messages: ``messages.py``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from common.span import Value
from ingest.json_text import LEVELS_MAX, NotJson, read_json, scalar_text
from ingest.semconv.rows import Converter, MappingError, Reason
from ingest.semconv.vocabulary import finish_reason_named, in_words, provider_named

RESERVED_META: Final = frozenset(
    {"configuration", "cost_source", "counted_in", "request", "response", "system", "tool"}
)
"""Members of ``ag.meta`` with a meaning of their own: users' metadata of these names stays in the attributes."""

REMEMBERED_MAX: Final = 256
REMEMBERED_CHARACTERS_MAX: Final = 8_192
"""Maximum length of a remembered text. With the number of texts it bounds the memory of a converter: 20 MB at worst."""

_JSON = "application/json"
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
    if isinstance(value, str) and value.startswith(_OPENED):
        try:
            return read_json(value, levels_max=levels_max)
        except NotJson:
            return value
    return value


def structured(value: Value) -> Value:
    """Return what a text holds as JSON, or a value that came structured. Raises ``MappingError`` for text that is not
    JSON.
    """
    return parsed(value) if isinstance(value, str) else value


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


def _count(value: Value) -> int:
    if type(value) is int and value >= 0:
        return value
    raise MappingError(Reason.NOT_A_COUNT)


def _amount(value: Value) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and isfinite(value):
        return value
    raise MappingError(Reason.NOT_AN_AMOUNT)


def _number(value: Value) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise MappingError(Reason.NOT_A_NUMBER)


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


def _json_texts(value: Value) -> dict[str, Any]:
    """Return what was embedded: one JSON text or several."""
    return {"value": [parsed_value(text) for text in value] if isinstance(value, list) else parsed_value(value)}


def parsed_value(value: Value) -> Value:
    """Return the value that a text holds as JSON, or the text if it is not JSON."""
    if not isinstance(value, str):
        return value
    try:
        return read_json(value)
    except NotJson:
        return value


def of_mime_type(value: Value, mime_type: Value) -> Value:
    """Return a value by its MIME type: JSON is parsed, anything else stays text."""
    return structured(value) if mime_type == _JSON else value


def word(words: Mapping[str, str]) -> Converter:
    """Return a converter to a word of a vocabulary; other words are ignored."""

    def read(value: Value) -> str | None:
        text = as_text(value)
        return None if text is None else words.get(text)

    return Converter(f"a kind of span: {in_words(words)}", read)


def always(said: str) -> Converter:
    """Return a converter that ignores the value: the key alone has the meaning."""
    return Converter(f"`{said}`, whatever the value", lambda _: said)


def entity_named(kind: str) -> Converter:
    """Return a converter to a name that counts only if the kind next to it is this one."""

    def read(name: Value, sent_kind: Value) -> str | None:
        return as_text(name) if sent_kind == kind and name is not None else None

    return Converter(f"the name, if the kind is `{kind}`", read)


def _embedded(sent: Value) -> dict[str, Any] | None:
    inner = [element.get("embedding") for element in array_of(sent, Reason.NOT_TEXT) if isinstance(element, dict)]
    texts = [element["text"] for element in inner if isinstance(element, dict) and isinstance(element.get("text"), str)]
    return {"value": texts} if texts else None


def _documents(sent: Value) -> dict[str, Any] | None:
    inner = [element.get("document") for element in array_of(sent, Reason.NOT_TEXT) if isinstance(element, dict)]
    documents = [
        {
            name: parsed_if_json(member, levels_max=20) if name == "metadata" else member
            for name, member in element.items()
        }
        for element in inner
        if isinstance(element, dict)
    ]
    return {"documents": documents} if documents else None


COUNT = Converter("an integer of at least 0", _count)
AMOUNT = Converter("a number of at least 0", _amount)
NUMBER = Converter("a number", _number)
TEXT = Converter("a text", as_text)
TEXTS = Converter("texts", _texts)
AS_SENT = Converter("as it was sent", lambda value: value)
TAGS = Converter("an object: each text becomes a tag with the value `true`", _tags)
FINISH_REASONS_READ = Converter("a list of reasons, each one word", _finish_reasons)
PROVIDER = Converter("the normalized name of the provider", remembered(_provider))
METADATA = Converter("the members of the object", _metadata)
SETTINGS = Converter("the settings under their normalized names", remembered(_settings))
OBJECT = Converter("an object, or JSON text of an object", as_object)
INPUTS = Converter("an object; other JSON and text as `value`", lambda value: as_inputs(parsed_if_json(value)))
JSON_INPUTS = Converter("parsed JSON; anything but an object as `value`", lambda value: as_inputs(structured(value)))
OUTPUTS = Converter("the text; parsed if it is the JSON of an object or array", parsed_if_json)
JSON_OUTPUTS = Converter("JSON", structured)
EMBEDDED = Converter("the texts that were embedded, as `value`", _json_texts)
EMBEDDED_TEXTS = Converter("the texts that were embedded, as `value`", _embedded)
DOCUMENTS = Converter("the documents, as `documents`", _documents)
