"""``clearspan audit --verify`` is good only if something was compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from clearspan.client import verify
from clearspan.client.verify import PartitionReport
from clearspan.console import NOT_MADE
from clearspan.options import ServerOptions
from common.settings import Encoding, KafkaSettings, Settings, TopicSettings

COMPARED = PartitionReport("spans", 0, range(5), 0)
EMPTY = PartitionReport("spans", 1, range(0), 0)
NOT_STORED = PartitionReport("spans", 0, range(0), 3)
OTHER = PartitionReport("others", 0, range(1), 0)


@pytest.mark.parametrize(
    ("reports", "code", "reason"),
    [
        ([COMPARED, EMPTY, OTHER], 0, ""),
        ([EMPTY, OTHER], 0, ""),
        ([COMPARED, EMPTY], NOT_MADE, "Kafka has no topic others."),
        ([NOT_STORED, EMPTY, OTHER], NOT_MADE, "no record that Kafka holds of spans/0 is stored yet."),
        ([COMPARED, PartitionReport("spans", 1, range(0), 1), OTHER], NOT_MADE, "spans/1 is stored yet."),
        ([EMPTY, PartitionReport("others", 0, range(7, 7), 0)], NOT_MADE, "Kafka holds no record that is stored."),
    ],
)
def test_audit_that_compared_nothing_is_not_made(
    reports: Sequence[PartitionReport],
    code: int,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def compare(*_: Any) -> Sequence[PartitionReport]:
        return reports

    monkeypatch.setattr(verify, "_verify", compare)
    topics = {name: TopicSettings(encoding=Encoding.SPAN_JSON) for name in ("spans", "others")}
    names = {"intake_topic": "spans", "otlp_topic": "spans"}
    settings = Settings(kafka=KafkaSettings(topics=topics, **names))

    returned = verify.verify(settings, server=ServerOptions(), admin_key="root", topic=None, as_json=True)

    printed = capsys.readouterr()
    assert (returned, json.loads(printed.out)["is_good"]) == (code, code == 0)
    assert reason in printed.err
