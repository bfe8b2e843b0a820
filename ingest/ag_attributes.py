"""``ag.*`` attributes as SDKs write them on OTLP spans: flat keys, typed texts, older names (reference §4.5).

From flat attributes to flat attributes, before they are nested. The names of other instrumentations are no concern of
this file, and neither is the shape of ``ag`` (``ingest/ag.py``).
"""

from __future__ import annotations

from common.span import Attributes, Value
from ingest.json_text import NotJson, read_json

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
_RENAMED = ("ag.metrics.", "ag.references.", "ag.refs.", "ag.type.")  # where the names to change are
_DROPPED_KEY = "ag.metrics.acc.duration.total"  # the duration is computed from the times


def has_ag_attributes(flat: Attributes) -> bool:
    """Whether any key begins with ``ag.``; most spans have none."""
    # One search in C over all keys: a fifth of the time of asking each. No key holds U+0000.
    joined = "\0".join(flat)
    return joined.startswith("ag.") or "\0ag." in joined


def decode_ag_attributes(flat: Attributes) -> Attributes:
    """The same attributes with typed ``ag.*`` texts read and older names made current. The later of two keys wins.

    An ``ag`` that is no object would stand in the way of the keys below it, so it steps aside already here.
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
        return read_json(text.removeprefix(_JSON)) if text.startswith(_JSON) else text
    except NotJson:
        return text


def _current(key: str) -> str:
    for prefix, renamed in _RENAMED_PREFIXES:
        if key.startswith(prefix):
            key = renamed + key.removeprefix(prefix)
            break
    return _RENAMED_KEYS.get(key, key)
