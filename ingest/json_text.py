"""Between values and text: JSON that an attribute carries as text, and the text of a scalar.

Some instrumentations write structured values as JSON text. What is read here obeys the same rules as what a codec
decodes (``common/span.py``): numbers, not-finite doubles and nesting as in contract §4. Text that cannot obey them is
not JSON to us, and stays the text that it is: nothing is refused this late.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from common.limits import SpanLimits
from common.span import Value

LEVELS_MAX = SpanLimits().nesting_depth_max
_INT64_MIN, _UINT64_END = -(2.0**63), 2.0**64
_MAY_BE_DOUBLE = re.compile(r"[0-9][.eE]")
_MAY_PASS_64_BITS = re.compile(r"[0-9]{19}")


class NotJson(ValueError):
    """The text is not JSON that a span can hold."""


def read_json(text: str, *, levels_max: int = LEVELS_MAX) -> Value:
    """The value that ``text`` holds, JSON-ready.

    Raises ``NotJson`` for malformed JSON, lone surrogates, U+0000, and nesting past ``levels_max``, the limit of attributes.
    ``NaN``, ``Infinity`` and ``-Infinity``, which Python's ``json`` writes, are read as these texts.
    """
    if "\\u0000" in text:
        raise NotJson
    try:
        loaded = _loads(text)
        value: Value = loaded if _is_plain(text, levels_max) else _ready(loaded, levels_max)
    except (ValueError, TypeError, RecursionError) as error:  # orjson refuses to write by TypeError
        raise NotJson from error
    return value


def json_number(value: float) -> int | float:
    """A double as JSON-ready number: an ``int`` where it has no fraction and fits 64 bits."""
    if value.is_integer() and _INT64_MIN <= value < _UINT64_END:
        return int(value)
    return value


def scalar_text(value: Value) -> str | None:
    """The text of a text, number or boolean, as JSON shows it; ``None`` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return orjson.dumps(json_number(value) if isinstance(value, float) else value).decode()
    return None


def _loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if "NaN" not in text and "Infinity" not in text:
            raise
    # Python's own parser knows the literals; through orjson once more, which refuses what the parser lets pass.
    return orjson.loads(orjson.dumps(json.loads(text, parse_constant=str)))


def _is_plain(text: str, levels: int) -> bool:
    """Whether it is plain from the text that there is no double in it and no nesting that is too deep: a walk less."""
    return (
        text.count("{") + text.count("[") <= levels
        and _MAY_BE_DOUBLE.search(text) is None
        and _MAY_PASS_64_BITS.search(text) is None
    )


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
