"""The engine that applies the tables: from the attributes of a span to what they mean under ``ag``.

Which rows of the tables apply depends on the keys of the attributes alone. ``key_mapping.py`` finds them once per set
of keys, and ``ingest/normalize.py`` keeps the result in its plan for these keys; a span then costs its conversions, and
half a microsecond per row. The result has the canonical shape already (``ingest/ag.py``). Attributes are read and never
changed. Pure; thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from common.json_values import json_number
from common.nesting import nest
from common.plans import Keys
from common.span import Attributes
from common.usage import is_amount, rounded
from ingest.semconv.converters import is_json_text
from ingest.semconv.key_mapping import HELD, ROOTS, KeyMapping, Step
from ingest.semconv.rows import MappingError

TOTAL_END: Final = 2**64
"""Exclusive limit of the sums of tokens and costs: integers in JSON have 64 bits."""


class Mapped(NamedTuple):
    """What the attributes of a span mean: the members of ``ag`` that are not empty, and a reason for each value that
    cannot be read.
    """

    ag: dict[str, Any]
    mapping_errors: Sequence[str] = ()


def map_attributes(
    mapping: KeyMapping | None,
    flat: Attributes,
    nested: Callable[[], Attributes],
    mapping_of_keys: Callable[[Keys], KeyMapping | None],
) -> Mapped | None:
    """Return what the attributes of other instrumentations mean; ``None`` if there are none.

    ``mapping`` is that of the keys of ``flat``; ``nested`` returns the same attributes, nested (``common/nesting.py``).
    Attributes of an instrumentation that came nested are flattened first, and ``mapping_of_keys`` gives the mapping of
    their keys. A response that is published again has everything under ``ag`` already.
    """
    if mapping is None or _is_of_a_response(flat.get("ag")):
        return None
    if mapping.roots and any(isinstance(flat[root], dict) for root in mapping.roots):
        spread = _spread_out(flat, mapping.roots)
        return map_attributes(mapping_of_keys(tuple(spread)), spread, nested, mapping_of_keys)
    return _carried_out(mapping, flat, nested) if mapping.steps else None


def _is_of_a_response(ag: Any) -> bool:
    """Return whether this is the ``ag`` of a response, which has the type of its trace. A span sent for the first time
    has a partial ``ag``, usually without one.
    """
    types = ag.get("type") if isinstance(ag, dict) else None
    return isinstance(types, dict) and "trace" in types


def _carried_out(mapping: KeyMapping, flat: Attributes, nested: Callable[[], Attributes]) -> Mapped:
    made: list[dict[str, Any]] = [{} for _ in mapping.places]
    mapping_errors: list[str] = []
    contested = mapping.contested
    if contested is None or not all(map(is_json_text, map(flat.get, contested.keys))):
        _carry_out(mapping.steps, flat, nested, made, mapping_errors)
    else:
        _carry_out(contested.steps, flat, nested, made, mapping_errors)
        for step in contested.last_first:
            *_, place, leaf = step
            if made[place][leaf] == HELD:
                _carry_out((step,), flat, nested, made, mapping_errors)
    return Mapped(_put_together(mapping.places, made), mapping_errors)


def _carry_out(
    steps: Iterable[Step],
    flat: Attributes,
    nested: Callable[[], Attributes],
    made: Sequence[dict[str, Any]],
    mapping_errors: list[str],
) -> None:
    for key, keys, below, names, read, place, leaf in steps:
        try:
            if key:
                value = flat[key]
                if value is None:
                    continue
                found = read(value)
            elif keys:
                found = read(*map(flat.get, keys), *((_container(flat, nested(), below, ()),) if below else ()))
            else:
                container = _container(flat, nested(), below, names)
                if container is None:
                    continue
                found = read(container)
        except MappingError as mapping_error:
            mapping_errors.append(mapping_error.reason)
            found = mapping_error.found
        if found is None:
            continue
        if leaf:
            made[place][leaf] = found
        else:
            made[place].update(found)


def _container(flat: Attributes, nested: Attributes, below: tuple[str, ...], names: tuple[str, ...]) -> Any:
    """Return the value at a path, or its members in ``names``; ``None`` if the path does not exist.

    Where a scalar is in the way, as of ``gen_ai.prompt.0.content`` if ``gen_ai.prompt`` is a text, the keys below the
    path are nested without it.
    """
    found: Any = nested
    for segment in below:
        found = found.get(segment) if isinstance(found, dict) else None
    if not isinstance(found, dict | list):
        path = ".".join(below)
        found = _keys_below(flat, path + ".") or (flat.get(path) if found is None else found)
    if not names or not isinstance(found, dict):
        return None if names else found
    return {name: found[name] for name in names if name in found}


def _keys_below(flat: Attributes, prefix: str) -> Any:
    """Return the attributes whose keys begin with a prefix, without it and nested; ``None`` if there are none.

    They are nested one level down, so that numbered keys make an array.
    """
    return nest({f"_.{key[len(prefix) :]}": value for key, value in flat.items() if key.startswith(prefix)}).get("_")


def _put_together(places: Sequence[tuple[int, str]], made: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return ``ag``, the first of the objects, with the others in it that are not empty.

    Where a row gave the object as a whole, the members of other rows are added to it.
    """
    for at in range(len(places) - 1, 0, -1):
        members = made[at]
        if members:
            around, name = places[at]
            whole = made[around].get(name)
            made[around][name] = members if whole is None else _completed(whole, members)
    ag = made[0]
    if "metrics" in ag:
        for unit, used in ag["metrics"].items():
            _complete_totals(used, are_costs=unit == "costs")
        if "type" not in ag:
            _complete_type(ag)
    _complete_finish_reasons(ag)
    return ag


def _completed(whole: Any, members: dict[str, Any]) -> Any:
    """Return an object with further members; a text or a list as it is."""
    return {**whole, **members} if isinstance(whole, dict) else whole


def _complete_totals(used: dict[str, dict[str, Any]], *, are_costs: bool) -> None:
    """Add missing totals of tokens and costs, if a number in JSON can hold them."""
    for amounts in used.values():
        if "total" not in amounts and ("prompt" in amounts or "completion" in amounts):
            total = amounts.get("prompt", 0) + amounts.get("completion", 0)
            if total < TOTAL_END:
                amounts["total"] = json_number(rounded(total)) if are_costs and is_amount(total) else total


def _complete_type(ag: dict[str, Any]) -> None:
    """Make a span of no known kind a model call, if it requested a model and has tokens of an answer.

    An agent may repeat the usage of its calls, so a span that names an agent is not one.
    """
    tokens = ag["metrics"].get("tokens", {}).get("incremental", {})
    if tokens.get("completion") and "model" in ag.get("meta", {}).get("request", {}) and "unsupported" not in ag:
        ag["type"] = {"span": "chat"}


def _complete_finish_reasons(ag: dict[str, Any]) -> None:
    """Copy finish reasons that only the messages have, and the other way round if there is one of each."""
    outputs = ag.get("data", {}).get("outputs")
    messages = outputs.get("messages") if isinstance(outputs, dict) else None
    if not messages or not isinstance(messages, list):
        return
    reasons = ag.get("meta", {}).get("response", {}).get("finish_reasons")
    if reasons is None:
        said = [
            message["finish_reason"] for message in messages if isinstance(message, dict) and "finish_reason" in message
        ]
        if said:
            ag.setdefault("meta", {}).setdefault("response", {})["finish_reasons"] = said
    elif len(messages) == len(reasons) == 1 and isinstance(messages[0], dict) and "role" in messages[0]:
        ag["data"]["outputs"] = {**outputs, "messages": [{"finish_reason": reasons[0], **messages[0]}]}


def flattened(attributes: Attributes) -> Attributes:
    """Return attributes with those of instrumentations flattened that came nested; the same if none did."""
    roots = [key for key, value in attributes.items() if isinstance(value, dict) and key in ROOTS]
    return _spread_out(attributes, roots) if roots else attributes


def _spread_out(flat: Attributes, roots: Sequence[str]) -> Attributes:
    """Flatten attributes that came nested, as objects under the first segment of their keys."""
    spread = {key: value for key, value in flat.items() if key not in roots}
    for root in roots:
        spread.update(_spread(root, flat[root]))
    return spread


def _spread(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _spread(f"{prefix}.{name}", member)
    else:
        yield prefix, value


def united(mapped: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was mapped, overlaid with what was sent as ``ag``. Nothing that was sent is lost or changed.

    Objects on both sides are merged member by member, except those in ``_WHOLE``: one side wins as a whole.
    """
    return _united(mapped, sent, ())


_WHOLE: Final = frozenset(
    {("data", "inputs"), ("data", "outputs"), ("data", "internals")}
    | {("metrics", name, sub) for name in ("tokens", "costs") for sub in ("incremental", "cumulative")}
)


def _united(mapped: Mapping[str, Any], sent: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    both = dict(mapped)
    for name, value in sent.items():
        under = both.get(name)
        below = (*path, name)
        if isinstance(value, dict) and isinstance(under, dict) and below not in _WHOLE:
            both[name] = _united(under, value, below)
        elif value is not None or name not in both:
            both[name] = value
    return both
