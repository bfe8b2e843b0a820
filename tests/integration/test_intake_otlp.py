"""OTLP over HTTP: what is answered, and that what is in Kafka then decodes to what was sent (contract §4)."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from google.protobuf.json_format import Parse
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from common.codec import otlp_json, otlp_protobuf
from common.errors import Unavailable
from common.limits import SpanLimits
from common.project import DEFAULT_PROJECT_ID
from common.settings import LimitSettings, Settings
from common.span import Span
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.samples import sample_bytes, sample_names
