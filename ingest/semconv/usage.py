"""Usage of a call as one object, as providers and SDKs write it: counts of tokens, or what they cost.

Names differ, and so does what the count of the prompt includes. One rule says it for all: details in an object of their
own (``prompt_tokens_details``) are parts of the count; what stands next to the count (``cache_read_input_tokens``) is
not in it, unless the total that was sent is the sum without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from common.json_values import json_number
from common.span import Value
from common.usage import rounded
from ingest.semconv.converters import AMOUNT, COUNT, as_object
from ingest.semconv.rows import Converter, MappingError, Reason

_COUNTS: Final = {
    "input": "prompt",
    "input_tokens": "prompt",
    "inputTokens": "prompt",
    "prompt": "prompt",
    "prompt_tokens": "prompt",
    "promptTokens": "prompt",
    "output": "completion",
    "output_tokens": "completion",
    "outputTokens": "completion",
    "completion": "completion",
    "completion_tokens": "completion",
    "completionTokens": "completion",
    "total": "total",
    "total_tokens": "total",
    "totalTokens": "total",
}
_DETAILS: Final = frozenset(
    {
        "completion_tokens_details",
        "input_token_details",
        "input_tokens_details",
        "output_token_details",
        "output_tokens_details",
        "prompt_tokens_details",
    }
)
_SIDES: Final = {
    "cache": "prompt",
    "completion": "completion",
    "input": "prompt",
    "output": "completion",
    "prompt": "prompt",
}
"""The side of the call, by the beginning of a name."""

_MEMBERS: Final = {
    "cache_creation": "cache_write",
    "cache_write": "cache_write",
    "ephemeral": "cache_write",
    "cache": "cached",
    "reasoning": "reasoning",
}
"""The member that counts a part, by a word in its name; the first word decides."""

_REPEATED: Final = (
    "cache_creation_ephemeral",
    "cache_creation_input_tokens_above",
    "input_priority",
    "output_priority",
)
"""Beginnings of names that repeat parts which have a name of their own."""

_SUMS_END: Final = 2**64


def _usage(sent: Value, read: Callable[[Value], Any]) -> dict[str, Any]:
    """Return ``{prompt?, completion?, total?, cached?, cache_write?, reasoning?}``.

    Raises ``MappingError`` with all other numbers if one cannot be read.
    """
    usage = as_object(sent)
    numbers = _Numbers(read)
    counts = numbers.of({_COUNTS[name]: value for name, value in usage.items() if name in _COUNTS})
    details = numbers.of(
        {
            name: value
            for key, members in usage.items()
            if key in _DETAILS and isinstance(members, dict)
            for name, value in members.items()
            if _member(name)
        }
    )
    known = {_member(name) for name in details}
    flat = {
        name: number
        for name, number in numbers.of({name: value for name, value in usage.items() if _is_part(name)}).items()
        if _member(name) not in known
    }
    try:
        used = _with_parts(counts, flat) | _by_member(details | flat)
    except MappingError as mapping_error:
        raise MappingError(mapping_error.reason, found=counts) from mapping_error
    if numbers.mapping_error is not None:
        raise MappingError(numbers.mapping_error.reason, found=used) from numbers.mapping_error
    return used


class _Numbers:
    """Reads numbers, and keeps the last error."""

    def __init__(self, read: Callable[[Value], Any]) -> None:
        self._read = read
        self.mapping_error: MappingError | None = None

    def of(self, members: Mapping[str, Value]) -> dict[str, Any]:
        """Return the numbers of the members that are numbers."""
        numbers = {}
        for name, value in members.items():
            try:
                if value is not None:
                    numbers[name] = self._read(value)
            except MappingError as mapping_error:
                self.mapping_error = mapping_error
        return numbers


def _is_part(name: str) -> bool:
    is_known = name in _COUNTS or name in _DETAILS
    return not is_known and name.partition("_")[0] in _SIDES and not name.startswith(_REPEATED)


def _member(name: str) -> str:
    """Return the member of ``ag.metrics.tokens`` that counts a part; ``''`` if none does."""
    return next((member for word, member in _MEMBERS.items() if word in name), "")


def _with_parts(counts: dict[str, Any], flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts with the parts that stand next to them, unless the total says that they are in them."""
    if not flat or counts.get("total") == _sum(counts.get("prompt", 0), counts.get("completion", 0)):
        return counts
    sums = dict(counts)
    for name, number in flat.items():
        side = _SIDES[name.partition("_")[0]]
        sums[side] = _sum(sums.get(side, 0), number)
    return sums


def _by_member(parts: Mapping[str, Any]) -> dict[str, Any]:
    sums: dict[str, Any] = {}
    for name, number in parts.items():
        member = _member(name)
        if member:
            sums[member] = _sum(sums.get(member, 0), number)
    return sums


def _sum(one: float, other: float) -> float:
    """Return a sum without the errors of binary fractions. Raises ``MappingError`` if JSON cannot hold it."""
    total = one + other
    if total >= _SUMS_END:
        raise MappingError(Reason.NOT_A_COUNT)
    return total if type(total) is int else json_number(rounded(total))


def _tokens(sent: Value) -> dict[str, Any]:
    return _usage(sent, COUNT.read)


def _costs(sent: Value) -> dict[str, Any]:
    """Return ``{prompt?, completion?, total?}``: what parts cost is in these."""
    try:
        return _without_parts(_usage(sent, AMOUNT.read))
    except MappingError as mapping_error:
        found = None if mapping_error.found is None else _without_parts(mapping_error.found)
        raise MappingError(mapping_error.reason, found=found) from mapping_error


def _without_parts(costs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: costs[name] for name in ("prompt", "completion", "total") if name in costs}


TOKENS_USED = Converter("the counts of tokens in an object", _tokens)
COSTS_GIVEN = Converter("the costs in an object", _costs)
