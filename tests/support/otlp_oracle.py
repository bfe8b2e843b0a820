"""What an OTLP JSON record says, read as naively as possible: an oracle for what must come back.

Written against the OTLP specification and contract §4, on purpose without a line of ours: no codec, no nesting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

KINDS = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]
STATUSES = ["UNSET", "OK", "ERROR"]


def sent_spans(record: bytes) -> Iterator[dict[str, Any]]:
    """Every span of an OTLP JSON record with its resource and scope beside it, values as JSON shows them."""
    for resource_spans in json.loads(record)["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                yield {
                    "span": span,
                    "attributes": attributes(span),
                    "resource": resource_spans.get("resource", {}),
                    "resource_schema_url": resource_spans.get("schemaUrl", ""),
                    "scope": scope_spans.get("scope", {}),
                    "scope_schema_url": scope_spans.get("schemaUrl", ""),
                }


def attributes(holder: dict[str, Any]) -> dict[str, Any]:
    """Key to plain value."""
    return {each["key"]: value(each["value"]) for each in holder.get("attributes", [])}


def value(any_value: dict[str, Any]) -> Any:
    """A plain value: integers exactly, whole doubles as integers, bytes as base64 text, not-finite as text."""
    match any_value:
        case {"stringValue": text} | {"bytesValue": text}:
            return text
        case {"boolValue": flag}:
            return flag
        case {"intValue": digits}:
            return int(digits)
        case {"doubleValue": number}:
            return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**63 else number
        case {"arrayValue": array}:
            return [value(each) for each in array.get("values", [])]
        case {"kvlistValue": entries}:
            return {each["key"]: value(each["value"]) for each in entries.get("values", [])}
        case _:
            return None


def path_in(tree: Any, dotted: str) -> Any:
    """What stands at a dotted key of a nested object, whichever way the dots were split; raises ``KeyError``."""
    if isinstance(tree, dict) and dotted in tree:
        return tree[dotted]
    head = ""
    for segment in dotted.split(".")[:-1]:
        head = f"{head}.{segment}" if head else segment
        branch = tree.get(head) if isinstance(tree, dict) else _item(tree, head)
        if isinstance(branch, dict | list):
            try:
                return path_in(branch, dotted[len(head) + 1 :])
            except KeyError:
                continue
    if isinstance(tree, list):
        found = _item(tree, dotted)
        if found is not None:
            return found
    raise KeyError(dotted)


def _item(array: list[Any], index: str) -> Any:
    return array[int(index)] if index.isdigit() and int(index) < len(array) else None
