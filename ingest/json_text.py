"""JSON that an attribute carries as text, and the text of a scalar.

Some instrumentations write structured values as JSON text. Such values follow the same rules as decoded ones
(``common/span.py``): numbers, not-finite doubles and nesting as in contract §4. Text that breaks them stays text:
nothing is rejected this late.
"""

from __future__ import annotations

from typing import Any

import orjson

from common.json_numbers import json_number
from common.json_tokens import parsed_json
from common.limits import SpanLimits
from common.nesting import has_long_paths
from common.span import Value

LEVELS_MAX = SpanLimits().nesting_depth_max


class NotJson(ValueError):
    """The text is not JSON that a span can hold."""


def read_json(text: str, *, levels_max: int = LEVELS_MAX, name: str = "") -> Value:
    """Return the value that ``text`` holds, JSON-ready. ``name`` is the key that it gets, unless a convention names it.

    Raises ``NotJson`` for malformed JSON, lone surrogates, U+0000, nesting past ``levels_max``, the limit of
    attributes, and paths that take many times the text (``common/nesting.py``). ``NaN``, ``Infinity``
    and ``-Infinity``, which Python's ``json`` writes, become these texts.
    """
    if "\\u0000" in text:
        raise NotJson
    try:
        loaded = parsed_json(text)
        value: Value = loaded if _is_ready(loaded, levels_max) else _ready(loaded, levels_max)
    except ValueError as error:
        raise NotJson from error
    if isinstance(value, dict | list) and has_long_paths(name, value):
        raise NotJson
    return value


def scalar_text(value: Value) -> str | None:
    """Return the text of a text, number or boolean, as JSON shows it; ``None`` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return orjson.dumps(json_number(value) if isinstance(value, float) else value).decode()
    return None


def _is_ready(value: Any, levels: int) -> bool:
    """Return whether the parsed value can stay as it is: no double that should be an integer, not nested too deep.

    Nearly all can. Checking takes a third of the time of copying.
    """
    kind = type(value)
    if kind is dict:
        value = value.values()
    elif kind is not list:
        return kind is not float or not value.is_integer()
    if levels == 0:
        return False
    for member in value:
        kind = type(member)
        if kind is float:
            if member.is_integer():
                return False
        elif (kind is dict or kind is list) and not _is_ready(member, levels - 1):
            return False
    return True


def _ready(value: Any, levels: int) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        raise NotJson
    if isinstance(value, dict):
        return {key: _ready(member, levels - 1) for key, member in value.items()}
    return [_ready(element, levels - 1) for element in value]
