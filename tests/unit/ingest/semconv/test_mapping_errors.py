"""Values of known meaning that cannot be read: they stay as they were sent, and are counted by reason."""

from __future__ import annotations

import orjson

from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.settings import Encoding, TopicSettings
from common.telemetry import MAPPING_ERRORS
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, decode_chunk, records_of
from ingest.decoding.counts import count_records
from tests.support.attributes import attributes_of
from tests.support.otlp import START_NS, request

RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
ODD = {"gen_ai.usage.input_tokens": "many", "gen_ai.output.messages": "[{", "gen_ai.request.model": "m"}


def a_portion(*values: bytes | None) -> Chunk:
    records = [Record("t", 0, at, 5, None, value) for at, value in enumerate(values)]
    return Chunk(records, {Partition("t", 0): "c/t/0"}, START_NS)


def counted(reason: str) -> float:
    return float(MAPPING_ERRORS.labels(reason)._value.get())


def test_unreadable_value_is_kept_and_not_mapped() -> None:
    rows = decode_chunk(a_portion(request(["a"], attributes=ODD)), RULES).rows

    (attributes,) = map(orjson.loads, attributes_of(rows))
    assert attributes["gen_ai"]["usage"]["input_tokens"] == "many"
    assert attributes["gen_ai"]["output"]["messages"] == "[{"
    assert attributes["ag"]["meta"] == {"request": {"model": "m"}}
    assert attributes["ag"]["data"] == {}
    assert attributes["ag"]["metrics"]["tokens"] == {}


def test_mapping_errors_are_counted_per_record() -> None:
    given = a_portion(request(["a", "b"], attributes=ODD), None, request(["c"]))

    accounts = decode_chunk(given, RULES).outcomes

    assert [dict(account.mapping_errors) for account in accounts] == [{"not_a_count": 2, "not_json": 2}, {}, {}]


def test_worker_adds_mapping_errors_to_the_metric() -> None:
    given = a_portion(request(["a", "b"], attributes=ODD))
    before = counted("not_a_count"), counted("not_json")

    count_records(list(records_of(given, decode_chunk(given, RULES))))

    assert (counted("not_a_count") - before[0], counted("not_json") - before[1]) == (2, 2)
