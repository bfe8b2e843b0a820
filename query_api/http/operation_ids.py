"""The ``operationId`` of a route: the name of its function in a generated client, such as ``query_spans``.

It follows from method and path, so that it is the same in every version of the document: a verb, then the words of the
path, the last of which is plural if the route is about several.
"""

from __future__ import annotations

import re
from typing import Final

_OF_SEVERAL: Final = frozenset({"query", "log", "diff", "ingest", "replay", "drop", "export"})
_OF_ONE: Final = frozenset({"fork", "commit", "retrieve", "resolve", "deploy", "check"})
"""Verbs at the end of a path. After a parameter, the last word of a path that is posted to is always a verb."""

_OF_AN_ITEM: Final = {"GET": "get", "PUT": "edit", "PATCH": "edit", "DELETE": "delete"}
_OF_A_COLLECTION: Final = {"GET": "list", "POST": "create", "PUT": "edit", "DELETE": "delete"}
_OF_A_THING: Final = {"GET": "get", "POST": "create", "PUT": "set", "DELETE": "delete"}
_SINGULAR: Final = frozenset({"analytics", "docs", "metrics", "status"})
_IRREGULAR: Final = {
    "GET /": "get_home",
    "GET /prices/unknown": "list_unknown_prices",
    "GET /projects/current": "get_current_project",
    "POST /tracing/spans/ingest": "ingest_spans",
    "GET /tracing/spans/analytics": "get_tracing_span_counts",
    "POST /tracing/spans/analytics": "query_tracing_span_counts",
    "GET /v1/traces": "check_otlp",
    "GET /otlp/v1/traces": "check_prefixed_otlp",
    "POST /v1/traces": "export_otlp_traces",
    "POST /v1/metrics": "export_otlp_metrics",
    "POST /v1/logs": "export_otlp_logs",
    "POST /otlp/v1/traces": "export_prefixed_otlp_traces",
    "POST /otlp/v1/metrics": "export_prefixed_otlp_metrics",
    "POST /otlp/v1/logs": "export_prefixed_otlp_logs",
}


def operation_id(method: str, path: str) -> str:
    """Return the ``operationId`` of a route."""
    if (irregular := _IRREGULAR.get(f"{method} {path}")) is not None:
        return irregular
    segments = path.strip("/").split("/")
    words = [re.sub(r"\W", "_", segment) for segment in segments if not _is_parameter(segment)]
    ends_with_parameter = _is_parameter(segments[-1])
    after_parameter = not ends_with_parameter and _is_parameter(segments[-2]) if len(segments) > 1 else False
    if not ends_with_parameter and (words[-1] in _OF_SEVERAL | _OF_ONE or (method == "POST" and after_parameter)):
        *words, verb = words
        return _join(verb, words, is_one=after_parameter or verb in _OF_ONE)
    if ends_with_parameter:
        return _join(_OF_AN_ITEM[method], words, is_one=True)
    verbs = _OF_A_COLLECTION if _is_plural(words[-1]) else _OF_A_THING
    return _join(verbs[method], words, is_one=method == "POST")


def _join(verb: str, words: list[str], *, is_one: bool) -> str:
    *path, last = words
    return "_".join([verb, *map(_singular, path), _singular(last) if is_one else last])


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{")


def _is_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith("ss") and word not in _SINGULAR


def _singular(word: str) -> str:
    if not _is_plural(word):
        return word
    return word.removesuffix("ies") + "y" if word.endswith("ies") else word.removesuffix("s")
