"""Kafka headers of a record: its project and its encoding. Intake writes them, the worker reads them (contract §4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.settings import Encoding

PROJECT_HEADER: Final = "project-id"
CONTENT_TYPE_HEADER: Final = "content-type"

CONTENT_TYPES: Final[Mapping[Encoding, str]] = {
    Encoding.OTLP_PROTO: "application/x-protobuf",
    Encoding.OTLP_JSON: "application/json",
    Encoding.SPAN_JSON: "application/vnd.clearspan.span+json",
}
ENCODINGS: Final[Mapping[str, Encoding]] = {content_type: encoding for encoding, content_type in CONTENT_TYPES.items()}
