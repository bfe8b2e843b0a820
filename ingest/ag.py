"""``ag.*`` attributes as SDKs write them, ``attributes.ag`` in its canonical shape, and the references in it (reference
§3.1, §3.2, §3.5, §3.7, §4.5).

First ``decode_ag_attributes``, on flat attributes before they are nested: typed texts are read and older names renamed.
Then ``canonical_ag``: whatever was sent under ``ag`` is taken apart and rebuilt. What does not fit moves under
``ag.unsupported``, nothing is rejected. The input is never changed: the result shares its inner values and none of its
containers. What is computed from the rest of the span is in ``ingest/normalize.py``.

References that were sent in ``ag``, or as a member of the span, are cleaned in one way. Spans with equal references and
links have equal hashes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any
from uuid import UUID

from common.ids import span_id_hex, trace_id_hex
from common.json_values import NotJson, number_in, read_json, scalar_text
from common.span import SPAN_TYPES, Attributes, Link, Value

_OBJECTS_OF_DATA = frozenset({"parameters", "inputs", "internals"})
_SCALAR_METRICS = ("duration", "errors")
_OBJECT_METRICS = ("tokens", "costs")
_FREE_OBJECTS = ("flags", "tags", "exception")
_SHAPED = frozenset(
    {"type", "data", "metrics", "session", "user", "meta", "selector", "references", "refs", "unsupported"}
)


_TYPE = "@ag.type="
_JSON = _TYPE + "json:"
_NONE = _TYPE + "none:"
_TYPED_PREFIXES = (
    "ag.data.",
    "ag.metrics.",
    "ag.flags.",
    "ag.meta.",
    "ag.refs.",
    "ag.type.",
    "ag.links.",
    "ag.exception.",
    "ag.session.",
    "ag.user.",
    "ag.agent.",
)

_RENAMED_PREFIXES = (
    ("ag.refs.", "ag.references."),
    ("ag.metrics.unit.tokens.", "ag.metrics.tokens.incremental."),
    ("ag.metrics.unit.costs.", "ag.metrics.costs.incremental."),
    ("ag.metrics.acc.tokens.", "ag.metrics.tokens.cumulative."),
    ("ag.metrics.acc.costs.", "ag.metrics.costs.cumulative."),
)
_SPAN_TYPE_KEY = "ag.type.node"
_RENAMED_KEYS = {
    _SPAN_TYPE_KEY: "ag.type.span",
    "ag.references.variant.id": "ag.references.application_variant.id",
    "ag.references.variant.slug": "ag.references.application_variant.slug",
    "ag.references.variant.version": "ag.references.application_revision.version",
    "ag.references.environment.version": "ag.references.environment_revision.version",
}
_RENAMED = ("ag.metrics.", "ag.references.", "ag.refs.", "ag.type.")  # prefixes of all names that are changed
_DROPPED_KEY = "ag.metrics.acc.duration.total"  # the duration is computed from the times


def decode_ag_attributes(flat: Attributes) -> Attributes:
    """Return the attributes with typed ``ag.*`` texts parsed and older names replaced. The later of two keys wins.

    An ``ag`` that is not an object would collide with the keys below it, so it moves to ``ag.unsupported`` already
    here.
    """
    decoded: Attributes = {}
    for key, value in flat.items():
        if key.startswith("ag."):
            read = _read(key, value) if isinstance(value, str) and value.startswith(_TYPE) else value
            if not key.startswith(_RENAMED):
                decoded[key] = read
            elif key != _DROPPED_KEY:
                decoded[_current(key)] = read.lower() if key == _SPAN_TYPE_KEY and isinstance(read, str) else read
        elif key != "ag" or isinstance(value, dict):
            decoded[key] = value
        elif value is not None:
            decoded["ag.unsupported._invalid"] = value
    return decoded


def _read(key: str, text: str) -> Value:
    if not key.startswith(_TYPED_PREFIXES):
        return text
    if text.startswith(_NONE):
        return None
    try:
        return read_json(text.removeprefix(_JSON), name=key) if text.startswith(_JSON) else text
    except NotJson:
        return text


def _current(key: str) -> str:
    for prefix, renamed in _RENAMED_PREFIXES:
        if key.startswith(prefix):
            key = renamed + key.removeprefix(prefix)
            break
    return _RENAMED_KEYS.get(key, key)


def empty_ag(trace_type: str) -> dict[str, Any]:
    """Return the ``ag`` of a span that sent none."""
    return {
        "type": {"trace": trace_type},
        "data": {},
        "metrics": {"duration": {}, "errors": {}, "tokens": {}, "costs": {}},
    }


def canonical_ag(sent: Value, *, trace_type: str) -> dict[str, Any]:
    """Return the canonical form of the ``ag`` that a span sent. Applied to its own result it changes nothing."""
    if not isinstance(sent, dict):
        return empty_ag(trace_type) | ({} if sent is None else {"unsupported": {"_invalid": sent}})
    aside = _carried(sent.get("unsupported"))
    free = {key: value for key in _FREE_OBJECTS if isinstance(value := sent.get(key), dict)}
    aside.update((key, value) for key, value in sent.items() if _is_unsupported(key, value))
    data = _data(sent, aside)
    ag = {
        "type": {"trace": trace_type, **_type(sent, aside)},
        "data": data,
        "metrics": _metrics(sent, aside),
        "session": _identity(sent, "session", aside),
        "user": _identity(sent, "user", aside),
        **free,
        "meta": _meta(sent, data, aside),
        "selector": _selector(sent, aside),
        "references": _references(sent, aside),
        "unsupported": aside,
    }
    return {key: value for key, value in ag.items() if value or key == "data" or key in free}


def as_number(value: Value) -> int | float | None:
    """Return the value if it is a number, else ``None``; a boolean is not a number."""
    return value if type(value) is int or type(value) is float else None


def _is_unsupported(key: str, value: Value) -> bool:
    if key in _FREE_OBJECTS:
        return value is not None and not isinstance(value, dict)
    return key not in _SHAPED


def _carried(unsupported: Value) -> dict[str, Any]:
    if isinstance(unsupported, dict):
        return dict(unsupported)
    return {} if unsupported is None else {"_unsupported": unsupported}


def _set_aside(aside: dict[str, Any], unsupported: Mapping[str, Any], *path: str) -> None:
    """Add what does not fit to the object at ``path``, and keep what that holds already."""
    if not unsupported:
        return
    for key in path:
        aside[key] = aside = _carried(aside.get(key))
    aside.update(unsupported)


def _object(sent: dict[str, Any], key: str, aside: dict[str, Any]) -> dict[str, Any]:
    """Return the member if it is an object; else move it aside and return an empty one."""
    value = sent.get(key)
    if isinstance(value, dict):
        return value
    if value is not None:
        _set_aside(aside, {key: value})
    return {}


def _type(sent: dict[str, Any], aside: dict[str, Any]) -> dict[str, str]:
    members = _object(sent, "type", aside)
    _set_aside(aside, {key: value for key, value in members.items() if key not in ("trace", "span")}, "type")
    span_type = members.get("span")
    return {"span": span_type} if isinstance(span_type, str) and span_type in SPAN_TYPES else {}


def _data(sent: dict[str, Any], aside: dict[str, Any]) -> dict[str, Any]:
    data, unsupported = {}, {}
    for key, value in _object(sent, "data", aside).items():
        if key == "outputs":
            data[key] = value
        elif key not in _OBJECTS_OF_DATA:
            unsupported[key] = value
        elif value is not None:
            found = _object_in(value)
            if found is None:
                unsupported[key] = value
            else:
                data[key] = found
    _set_aside(aside, unsupported, "data")
    return data


def _object_in(value: Value) -> dict[str, Any] | None:
    """Return the object, or the one that a text holds as JSON; ``None`` if it is neither."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = read_json(value)
        except NotJson:
            return None
    return value if isinstance(value, dict) else None


def _meta(sent: dict[str, Any], data: dict[str, Any], aside: dict[str, Any]) -> dict[str, Any]:
    """Return ``meta`` without ``configuration``, which becomes ``data.parameters`` if there are none."""
    meta = _object(sent, "meta", aside)
    if "configuration" not in meta:
        return meta
    configuration = meta["configuration"]
    parameters = None if data.get("parameters") else _object_in(configuration)
    if parameters is not None:
        data["parameters"] = parameters
    elif configuration is not None:
        _set_aside(aside, {"configuration": configuration}, "meta")
    return {key: value for key, value in meta.items() if key != "configuration"}


def _metrics(sent: dict[str, Any], aside: dict[str, Any]) -> dict[str, dict[str, Any]]:
    members = _object(sent, "metrics", aside)
    metrics: dict[str, dict[str, Any]] = {}
    for name in (*_SCALAR_METRICS, *_OBJECT_METRICS):
        metrics[name] = _metric(members.get(name), name, aside)
    _set_aside(aside, {name: value for name, value in members.items() if name not in metrics}, "metrics")
    return metrics


def _metric(sent: Value, name: str, aside: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(sent, dict):
        _set_aside(aside, {} if sent is None else {name: sent}, "metrics")
        return {}
    fitting = _scalar_metric if name in _SCALAR_METRICS else _object_metric
    metric, unsupported = {}, {}
    for key, value in sent.items():
        found = fitting(value) if key in ("cumulative", "incremental") else None
        if found is not None:
            metric[key] = found
        elif value is not None:
            unsupported[key] = value
    _set_aside(aside, unsupported, "metrics", name)
    return metric


def _scalar_metric(value: Value) -> int | float | None:
    if not isinstance(value, dict):
        return as_number(_number_if_text(value))
    numbers = (as_number(_number_if_text(value.get(key))) for key in ("total", "count", "value"))
    return next((number for number in numbers if number is not None), None)


def _object_metric(value: Value) -> dict[str, Any] | None:
    return {name: _number_if_text(member) for name, member in value.items()} if isinstance(value, dict) else None


def _number_if_text(value: Value) -> Value:
    """Return the number that a text is in JSON; any other value unchanged."""
    if not isinstance(value, str):
        return value
    number = number_in(value)
    return value if number is None else number


def _identity(sent: dict[str, Any], key: str, aside: dict[str, Any]) -> dict[str, str]:
    text = scalar_text(_object(sent, key, aside).get("id"))
    return {} if text is None else {"id": text}


def _selector(sent: dict[str, Any], aside: dict[str, Any]) -> dict[str, str]:
    selector = _object(sent, "selector", aside)
    if all(isinstance(value, str) for value in selector.values()):
        return selector
    _set_aside(aside, {"selector": selector})
    return {}


def _references(sent: dict[str, Any], aside: dict[str, Any]) -> dict[str, dict[str, str]]:
    references, unsupported = {}, {}
    for key, value in _object(sent, "references", aside).items():
        if key not in REFERENCE_KEYS or value is None:
            continue
        if isinstance(value, dict):
            references[key] = clean_reference(value)
        else:
            unsupported[key] = value
    _set_aside(aside, unsupported, "references")
    return references


# References: their keys, cleaning, the array in responses, and their hash.

REFERENCE_KEYS = frozenset(
    {"testcase"}
    | {
        kind + part
        for kind in ("testset", "query", "workflow", "application", "evaluator", "environment", "snippet")
        for part in ("", "_variant", "_revision")
    }
)

_HASHED_KEYS = REFERENCE_KEYS - {"testset_variant", "testset_revision"}
_SLUG = re.compile(r"[a-zA-Z0-9_\-][a-zA-Z0-9_.\-]*")
_UUID = re.compile(r"(?:0x)?([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)


def clean_reference(sent: Mapping[str, Any]) -> dict[str, str]:
    """Return its ``id``, ``slug`` and ``version`` as texts, as far as they are valid; the result may be empty.

    An id in any spelling of a UUID becomes the dashed one; other text stays. An invalid slug is dropped.
    """
    members = {name: text for name in ("id", "slug", "version") if (text := scalar_text(sent.get(name))) is not None}
    if "id" in members:
        members["id"] = _dashed(members["id"]) or members["id"]
    if "slug" in members and not _SLUG.fullmatch(members["slug"]):
        del members["slug"]
    return members


def references_of(cleaned: Mapping[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Return the array of a span whose ``ag.references`` are these: one element per key, in their order."""
    return [_element(reference, attributes={"key": key}) for key, reference in cleaned.items()]


def references_sent(sent: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the array that a span sent, with each element cleaned and its attributes kept."""
    return [
        _element(clean_reference(element), attributes=element.get("attributes"))
        for element in sent
        if isinstance(element, dict)
    ]


def _element(reference: dict[str, str], *, attributes: Any) -> dict[str, Any]:
    """Keep only UUIDs as ids, because clients parse the ids of an array. Any other id stays in ``ag.references``."""
    element: dict[str, Any] = {
        name: text for name, text in reference.items() if name != "id" or _dashed(text) is not None
    }
    if isinstance(attributes, dict):
        element["attributes"] = attributes
    return element


def _dashed(text: str) -> str | None:
    found = _UUID.fullmatch(text)
    return str(UUID(found[1])) if found else None


def hashes_of(references: Sequence[Mapping[str, Any]], links: Sequence[Link]) -> list[dict[str, Any]] | None:
    """Return the ``hashes`` of a span with these references (as responses contain them) and links; ``None`` if none has
    a key.

    Spans with equal references and links have equal hashes.
    """
    hashed = _hashed_references(references) | _hashed_links(links)
    if not hashed:
        return None
    return [{"id": str(_hash(hashed)), "attributes": {"key": "indirect"}}]


def _hashed_references(references: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    hashed = {}
    for reference in references:
        key = reference.get("attributes", {}).get("key")
        identity = {name: reference[name] for name in ("id", "slug", "version") if name in reference}
        if identity and isinstance(key, str) and key in _HASHED_KEYS:
            hashed[key] = identity
    return hashed


def _hashed_links(links: Sequence[Link]) -> dict[str, dict[str, str]]:
    return {
        link.attributes["key"]: {"span_id": span_id_hex(link.span_id), "trace_id": trace_id_hex(link.trace_id)}
        for link in links
        if isinstance(link.attributes.get("key"), str)
    }


def _hash(hashed: Mapping[str, Mapping[str, str]]) -> UUID:
    text = json.dumps(hashed, sort_keys=True).encode()
    return UUID(bytes=blake2b(text.replace(b" ", b""), digest_size=16).digest())
