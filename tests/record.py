"""``python -m tests.record NAME FILE… --did TEXT --version LIBRARY=VERSION``: make a sample of what an exporter sent.

Each file is the body of one request to ``/v1/traces`` in protobuf, without compression. The sample is one record in both
encodings in ``tests/data/samples``, with its entries in the manifest. Paths of this machine and ids of its processes are
replaced or left out. Afterwards add it to ``INSTRUMENTATIONS`` of ``tests/support/instrumentation_page.py``, write down
what the queries of the page must find (``sample_questions.py``, ``provider_tokens.py``), and run ``make golden``.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.sample_records import SAMPLES

CAPTURED_FROM: Final = "the library's own exporter over HTTP; JSON made from protobuf"
_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})
_OF_THIS_MACHINE: Final = frozenset(
    {"host.arch", "host.id", "host.name", "process.command", "process.command_args", "process.executable.path"}
    | {"process.owner", "process.pid", "process.runtime.description"}
)
_PATHS: Final = (
    (re.compile(r"/[^\s\"':,]*/site-packages"), "/app/site-packages"),
    (re.compile(r"/[^\s\"':,]*/node_modules"), "/app/node_modules"),
    (re.compile(r"/(?:home|root|tmp|Users)/[^\s\"':,]*"), "/app"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8000"),
)


def sample_of(requests: Iterable[bytes]) -> ExportTraceServiceRequest:
    """Return the spans of all requests as one, without what only this machine has."""
    sample = ExportTraceServiceRequest()
    for request in requests:
        sample.MergeFromString(request)
    _clean(sample)
    for resource_spans in sample.resource_spans:
        kept = [each for each in resource_spans.resource.attributes if each.key not in _OF_THIS_MACHINE]
        del resource_spans.resource.attributes[:]
        resource_spans.resource.attributes.extend(kept)
    return sample


def json_of(sample: ExportTraceServiceRequest) -> bytes:
    """Return the same as OTLP/JSON, whose ids are hexadecimal."""
    found = MessageToDict(sample, use_integers_for_enums=True, always_print_fields_with_no_presence=True)
    return json.dumps(_with_hexadecimal_ids(found), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def manifest_entries(
    name: str, sample: ExportTraceServiceRequest, did: str, versions: dict[str, str]
) -> list[dict[str, Any]]:
    """Return what the manifest says about the two files of a sample."""
    spans = [span for each in sample.resource_spans for scope_spans in each.scope_spans for span in scope_spans.spans]
    attributes = [attribute for each in sample.resource_spans for attribute in each.resource.attributes]
    common = {
        "captured_from": CAPTURED_FROM,
        "did": did,
        "services": sorted({each.value.string_value for each in attributes if each.key == "service.name"}),
        "versions": versions,
        "spans": len(spans),
        "traces": len({span.trace_id for span in spans}),
        "resource_spans": len(sample.resource_spans),
    }
    files = {"otlp_json": ("json", json_of(sample)), "otlp_proto": ("bin", sample.SerializeToString())}
    return [
        {
            "file": f"{name}-01.{encoding}.{ending}",
            "source": name,
            "encoding": encoding,
            **common,
            "bytes": len(value),
            "sha256": hashlib.sha256(value).hexdigest(),
        }
        for encoding, (ending, value) in files.items()
    ]


def _clean(message: Message) -> None:
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in [value] if isinstance(value, Message) else value:
                _clean(inner)
        elif isinstance(value, str):
            setattr(message, field.name, _without_paths(value))


def _without_paths(text: str) -> str:
    for pattern, replacement in _PATHS:
        text = pattern.sub(replacement, text)
    return text


def _with_hexadecimal_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hexadecimal_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(member).hex() if name in _IDS else _with_hexadecimal_ids(member)
        for name, member in value.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files of a sample and its entries in the manifest."""
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--did", required=True, help="what the program did")
    parser.add_argument("--version", action="append", required=True, help="LIBRARY=VERSION, several times")
    given = parser.parse_args(arguments)
    sample = sample_of(path.read_bytes() for path in given.files)
    versions = dict(each.rsplit("=", 1) for each in given.version)
    manifest = SAMPLES / "manifest.json"
    known = json.loads(manifest.read_bytes())
    others = [each for each in known["files"] if each["source"] != given.name]
    entries = manifest_entries(given.name, sample, given.did, versions)
    known["files"] = sorted([*others, *entries], key=lambda each: each["file"])
    (SAMPLES / f"{given.name}-01.otlp_json.json").write_bytes(json_of(sample))
    (SAMPLES / f"{given.name}-01.otlp_proto.bin").write_bytes(sample.SerializeToString())
    manifest.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
