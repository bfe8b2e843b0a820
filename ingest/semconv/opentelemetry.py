"""OpenTelemetry's general attributes: who it was about, on spans of any instrumentation."""

from __future__ import annotations

from typing import Final

from ingest.semconv.converters import TEXT
from ingest.semconv.rows import Convention, Row

OPENTELEMETRY: Final = Convention(
    "opentelemetry",
    "OpenTelemetry, general attributes",
    (
        Row("session.id", "session.id", TEXT),
        Row("enduser.id", "user.id", TEXT, generations="until 1.26"),
        Row("user.id", "user.id", TEXT),
    ),
)
