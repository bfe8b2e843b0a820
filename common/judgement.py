"""Read what was sent as the value and the label of a score (contract §3.6). Pure."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeGuard

from common.json_values import json_number, number_in, scalar_text
from common.score import NAME_LENGTH_MAX
from common.span import Value

_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
"""Doubles that are not finite, as JSON-ready values have them."""

NAME_ALLOWED: Final = f"a text of 1 to {NAME_LENGTH_MAX} characters"
VALUE_ALLOWED: Final = "a finite number, a boolean or a text"
LABEL_ALLOWED: Final = "a text, a number or a boolean"


class Judgement(NamedTuple):
    """The value and the label of a score; at least one of the two is there."""

    value: float | None
    label: str | None


def is_score_name(name: Value) -> TypeGuard[str]:
    """Return whether a value can be the name of a score."""
    return isinstance(name, str) and 0 < len(name) <= NAME_LENGTH_MAX


def is_score_value(value: Value) -> TypeGuard[bool | int | float | str]:
    """Return whether a JSON-ready value can be that of a score."""
    return isinstance(value, bool | int | float) or (isinstance(value, str) and value not in _NOT_FINITE)


def is_score_label(label: Value) -> bool:
    """Return whether a JSON-ready value can be the label of a score, or is absent."""
    return label is None or isinstance(label, bool | int | float | str)


def judgement_of(value: Value, label: Value) -> Judgement | None:
    """Return what was sent as the value and the label of a score; ``None`` if it is no score.

    A text that is a JSON number is that number, another text is a label, a boolean is 1 or 0 with its label. A label
    that was sent wins over one that the value implies. Empty texts are absent.
    """
    text = scalar_text(label) or None
    if value is None or value == "":
        return Judgement(None, text) if text else None
    if not is_score_value(value) or not is_score_label(label):
        return None
    if isinstance(value, bool):
        return Judgement(int(value), text or scalar_text(value))
    if isinstance(value, str):
        number = number_in(value)
        return Judgement(number, text or (value if number is None else None))
    return Judgement(json_number(value) if isinstance(value, float) else value, text)
