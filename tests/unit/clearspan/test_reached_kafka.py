"""How the embedded stack and its commands reach Kafka: without secrets of another cluster, and with those of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearspan.embedded.broker import EmbeddedBroker
from clearspan.embedded.external_broker import ExternalBroker, broker_of
from clearspan.embedded.layout import Layout, Running
from common.kafka_settings import KafkaSettings
from common.settings import Settings

SECURE = KafkaSettings.model_validate(
    {
        "bootstrap": "kafka:9093",
        "security_protocol": "SASL_SSL",
        "sasl": {"mechanism": "SCRAM-SHA-512", "username": "clearspan", "password": "secret"},
    }
)


def test_embedded_broker_gets_no_user() -> None:
    broker = EmbeddedBroker(Path("unused"))
    broker.bootstrap = "127.0.0.1:9092"

    assert broker.reached(SECURE) == SECURE.unsecured_at("127.0.0.1:9092")
    assert broker.reached(SECURE).security_protocol == "PLAINTEXT"


def test_external_broker_gets_its_user(tmp_path: Path) -> None:
    broker = broker_of(Settings(embedded_broker="off", kafka=SECURE), Layout(tmp_path))

    assert isinstance(broker, ExternalBroker)
    assert broker.bootstrap == "kafka:9093"
    assert broker.reached(SECURE) == SECURE


@pytest.mark.parametrize("has_own_broker", [True, False])
def test_commands_reach_the_kafka_of_the_running_stack(*, has_own_broker: bool) -> None:
    running = Running(1, "", "", "kafka2:9093", "", has_own_broker=has_own_broker)

    found = running.reached(SECURE)

    assert found.bootstrap == "kafka2:9093"
    assert (found.sasl.username == "clearspan") is not has_own_broker
