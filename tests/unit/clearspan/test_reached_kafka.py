"""How the commands reach the Kafka of the embedded stack: without secrets of another cluster, or with those of their own."""

from __future__ import annotations

import pytest

from clearspan.embedded.layout import Running
from common.kafka_settings import KafkaSettings

SECURE = KafkaSettings.model_validate(
    {
        "bootstrap": "kafka:9093",
        "security_protocol": "SASL_SSL",
        "sasl": {"mechanism": "SCRAM-SHA-512", "username": "clearspan", "password": "secret"},
    }
)


@pytest.mark.parametrize("has_own_broker", [True, False])
def test_commands_reach_the_kafka_of_the_running_stack(*, has_own_broker: bool) -> None:
    running = Running(1, "", "", "kafka2:9093", "", has_own_broker=has_own_broker)

    found = running.reached(SECURE)

    assert found.bootstrap == "kafka2:9093"
    assert (found.sasl.username == "clearspan") is not has_own_broker
