"""Mask a record on the wire, in its own encoding: what a dead letter holds (ADR 0021).

Unlike in spans that are stored, every text is examined, wherever it is: a rejected span may have content in the wrong
member, such as a word where an id belongs. Members that the encoding does not know are removed from protobuf, and
examined in JSON. What cannot be parsed raises any exception: the caller then keeps nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.codec.json_lenient import parse_leniently
from common.kafka.record import Encoding, Signal
from common.masking import DROPPED, Mask, MaskPlace
from common.span import PROMOTED_TEXTS
from ingest.semconv.evaluations import SCORE_KEYS

MaskOf: TypeAlias = Callable[[Any], Mask | None]
"""Returns the mask of spans whose resource has this ``project.id``, which is ``None`` without one."""

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
"""What decoding repairs, too."""

_ID_SIZES: Final = (8, 16)
_PLACE_OF_MESSAGE: Final = {
    "Resource": MaskPlace.RESOURCE,
    "InstrumentationScope": MaskPlace.SCOPE,
    "Event": MaskPlace.EVENTS,
    "Link": MaskPlace.LINKS,
    "Status": MaskPlace.STATUS_MESSAGE,
}
_PLACE_OF_MEMBER: Final = {
    "resource": MaskPlace.RESOURCE,
    "scope": MaskPlace.SCOPE,
    "events": MaskPlace.EVENTS,
    "links": MaskPlace.LINKS,
    "status": MaskPlace.STATUS_MESSAGE,
    "status_message": MaskPlace.STATUS_MESSAGE,
}
_NAMES: Final = frozenset({"name", "span_name", "eventName"})
_REQUESTS: Final[Mapping[Signal, tuple[Any, str]]] = {
    Signal.TRACES: (ExportTraceServiceRequest, "resource_spans"),
    Signal.LOGS: (ExportLogsServiceRequest, "resource_logs"),
}
_JSON_REQUESTS: Final = {Signal.TRACES: "resourceSpans", Signal.LOGS: "resourceLogs"}
_TEXTS_OF_NAMES: Final = frozenset({("Span", "name"), ("LogRecord", "event_name")})
_ANY_VALUES: Final = frozenset({"intValue", "doubleValue", "boolValue", "bytesValue", "stringValue"})


def masked_value(value: bytes, encoding: Encoding, mask_of: MaskOf, signal: Signal = Signal.TRACES) -> bytes:
    """Return a record with the spans, or log records, of masked projects masked. Raises if it cannot be parsed."""
    if encoding is Encoding.OTLP_PROTO:
        return _masked_protobuf(value, mask_of, signal)
    document = json.loads(_HALF_PAIR.sub("\ufffd", _encoded(parse_leniently(value))))
    masked = _otlp_json(document, mask_of, signal) if encoding is Encoding.OTLP_JSON else _span_json(document, mask_of)
    return _encoded(masked).encode()


def _encoded(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _masked_protobuf(value: bytes, mask_of: MaskOf, signal: Signal) -> bytes:
    message_type, name = _REQUESTS[signal]
    request = message_type.FromString(value)
    request.DiscardUnknownFields()
    for of_resource in getattr(request, name):
        claims = {each.key: _python(each.value) for each in of_resource.resource.attributes}
        mask = mask_of(_claim(claims))
        if mask is not None:
            _walk(of_resource, mask, MaskPlace.ATTRIBUTES)
    masked: bytes = request.SerializeToString()
    return masked


def _walk(message: Any, mask: Mask, place: MaskPlace) -> None:
    """Mask every text in a message, and the messages in it."""
    place = _PLACE_OF_MESSAGE.get(message.DESCRIPTOR.name, place)
    for field, content in message.ListFields():
        if field.message_type is not None and field.message_type.name == "KeyValue":
            _mask_key_values(content, mask, place)
        elif field.message_type is not None:
            for each in content if _is_repeated(field) else (content,):
                _walk(each, mask, place)
        elif field.type == FieldDescriptor.TYPE_STRING:
            of_text = MaskPlace.SPAN_NAME if (message.DESCRIPTOR.name, field.name) in _TEXTS_OF_NAMES else place
            if _is_repeated(field):
                content[:] = [mask.text(of_text, text) or "" for text in content]
            else:
                setattr(message, field.name, mask.text(of_text, content) or "")
        elif field.type == FieldDescriptor.TYPE_BYTES and len(content) not in _ID_SIZES:
            text = content.decode("utf-8", "replace")
            if mask.text_anywhere(text) != text:
                message.ClearField(field.name)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _mask_key_values(key_values: Any, mask: Mask, place: MaskPlace) -> None:
    kept = []
    for key_value in key_values:
        value = _python(key_value.value)
        masked, key = mask.member(place, key_value.key, value), mask.key(place, key_value.key, key_value.key)
        if masked is DROPPED or key is None:
            continue
        key_value.key = key
        if masked is not value:
            _write(key_value.value, masked)
        kept.append(type(key_value).FromString(key_value.SerializeToString()))
    del key_values[:]
    key_values.extend(kept)


def _python(value: Any) -> Any:
    """Return an ``AnyValue`` as the plain value that is stored."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_python(element) for element in value.array_value.values]
    if kind == "kvlist_value":
        return {member.key: _python(member.value) for member in value.kvlist_value.values}
    plain = getattr(value, kind)
    return base64.b64encode(plain).decode() if isinstance(plain, bytes) else plain


def _write(value: Any, plain: Any) -> None:
    """Write a plain value into an ``AnyValue``."""
    value.Clear()
    if isinstance(plain, dict):
        value.kvlist_value.SetInParent()
        for key, member in plain.items():
            _write(value.kvlist_value.values.add(key=key).value, member)
    elif isinstance(plain, list):
        value.array_value.SetInParent()
        for element in plain:
            _write(value.array_value.values.add(), element)
    elif isinstance(plain, bool):
        value.bool_value = plain
    elif isinstance(plain, int):
        value.int_value = plain
    elif isinstance(plain, float):
        value.double_value = plain
    elif plain is not None:
        value.string_value = plain


def _claim(attributes: dict[str, Any]) -> Any:
    project = attributes.get("project")
    return project.get("id") if isinstance(project, dict) else attributes.get("project.id")


def _otlp_json(document: Any, mask_of: MaskOf, signal: Signal) -> Any:
    name = _JSON_REQUESTS[signal]
    resources = []
    for of_resource in document[name]:
        attributes = (of_resource.get("resource") or {}).get("attributes") or []
        mask = mask_of(_claim({each["key"]: _json_python(each.get("value")) for each in attributes}))
        resources.append(of_resource if mask is None else _json(of_resource, mask, MaskPlace.ATTRIBUTES))
    return {name: resources}


def _json(node: Any, mask: Mask, place: MaskPlace, name: str = "") -> Any:
    """Return a part of a document with every text masked; attributes by their keys. May return ``DROPPED``."""
    if isinstance(node, list):
        return _without_dropped(_json(element, mask, place, name) for element in node)
    if isinstance(node, str):
        of_span = name in _NAMES and place is MaskPlace.ATTRIBUTES
        return mask.text(MaskPlace.SPAN_NAME if of_span else place, node) or ""
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("key"), str) and "value" in node:
        value = _json_python(node["value"])
        masked, key = mask.member(place, node["key"], value), mask.key(place, node["key"], node["key"])
        if masked is DROPPED or key is None:
            return DROPPED
        return {"key": key, "value": node["value"] if masked is value else _json_any(masked)}
    return {
        mask.text_anywhere(member) or "": _json(content, mask, _PLACE_OF_MEMBER.get(member, place), member)
        for member, content in node.items()
    }


def _without_dropped(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not DROPPED]


def _json_python(value: Any) -> Any:
    """Return an ``AnyValue`` in JSON as a plain value; anything else as its JSON text, which is examined as a whole."""
    if value is None or value == {}:
        return None
    if isinstance(value, dict) and len(value) == 1:
        [(kind, content)] = value.items()
        if kind in _ANY_VALUES and not isinstance(content, dict | list):
            return content
        if kind == "arrayValue":
            return [_json_python(element) for element in (content or {}).get("values") or []]
        if kind == "kvlistValue":
            return {each["key"]: _json_python(each.get("value")) for each in (content or {}).get("values") or []}
    return json.dumps(value)


def _json_any(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": _json_any(each)} for key, each in plain.items()]}}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [_json_any(each) for each in plain]}}
    if isinstance(plain, bool):
        return {"boolValue": plain}
    if isinstance(plain, int):
        return {"intValue": str(plain)}
    if isinstance(plain, float):
        return {"doubleValue": plain}
    return {} if plain is None else {"stringValue": plain}


def _span_json(document: Any, mask_of: MaskOf) -> Any:
    if "spans" in document and "span_id" not in document:
        return {"spans": [_span(span, mask_of) for span in document["spans"]]}
    return _span(document, mask_of)


def _span(span: Any, mask_of: MaskOf) -> Any:
    resource = span.get("resource")
    attributes = resource.get("attributes") if isinstance(resource, dict) else None
    mask = mask_of(_claim(attributes) if isinstance(attributes, dict) else None)
    if mask is None:
        return span
    return {
        mask.text_anywhere(name) or "": masked
        for name, member in span.items()
        if (masked := _span_member(name, member, mask)) is not DROPPED
    }


def _span_member(name: str, member: Any, mask: Mask) -> Any:
    place = _PLACE_OF_MEMBER.get(name, MaskPlace.ATTRIBUTES)
    if name in _NAMES and isinstance(member, str):
        return mask.text(MaskPlace.SPAN_NAME, member) or ""
    if name == "attributes" and isinstance(member, dict):
        return mask.attributes(place, member)
    if name in PROMOTED_TEXTS:
        return mask.member(place, PROMOTED_TEXTS[name].mask_key, member)
    if name in ("references", "hashes"):
        return mask.member(place, f"ag.{name}", member)
    if name == "scores" and isinstance(member, list):
        return [_score(element, mask) for element in member]
    if place is MaskPlace.ATTRIBUTES:
        return mask.member(place, name, member)
    return _source(member, mask, place)


def _score(sent: Any, mask: Mask) -> Any:
    """Return a score: what an evaluation says of it masked by the keys of its attributes, the rest as text."""
    if not isinstance(sent, dict):
        return _source(sent, mask, MaskPlace.EVENTS)
    members = {
        name: mask.member(MaskPlace.EVENTS, SCORE_KEYS[name], member)
        if name in SCORE_KEYS
        else _source(member, mask, MaskPlace.EVENTS)
        for name, member in sent.items()
    }
    return {mask.text_anywhere(name) or "": member for name, member in members.items() if member is not DROPPED}


def _source(member: Any, mask: Mask, place: MaskPlace) -> Any:
    """Return a resource, a scope, events or links: their attributes masked by key, everything else as text."""
    if isinstance(member, list):
        return _without_dropped(_source(element, mask, place) for element in member)
    if isinstance(member, str):
        return mask.text(place, member)
    if not isinstance(member, dict):
        return member
    return {
        mask.text_anywhere(name) or "": mask.attributes(place, content)
        if name == "attributes" and isinstance(content, dict)
        else _source(content, mask, place)
        for name, content in member.items()
    }
