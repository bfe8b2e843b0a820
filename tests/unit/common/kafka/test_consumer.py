from __future__ import annotations

import pytest
from aiokafka import ConsumerRecord

from common.kafka.consumer import as_record


@pytest.mark.parametrize(("sent_ms", "timestamp_ms"), [(None, -1), (-1, -1), (0, 0), (5, 5)])
def test_a_record_from_before_records_had_a_time_has_none(sent_ms: int | None, timestamp_ms: int) -> None:
    record = as_record(ConsumerRecord("t", 0, 7, sent_ms, 0, None, b"v", None, 0, 1, []))

    assert record.timestamp_ms == timestamp_ms
    assert (record.offset, record.value) == (7, b"v")
