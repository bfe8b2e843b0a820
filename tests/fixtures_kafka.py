"""Fixtures: brokers, started once per session, and names that no other test uses."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.kafka import Broker, apache_kafka, embedded_broker
from tests.support.secure_kafka import SecureKafka, secure_kafka


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of the embedded stack."""
    with embedded_broker(tmp_path_factory.mktemp("embedded")) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Apache Kafka."""
    with apache_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A real Apache Kafka with TLS, SASL and ACLs."""
    with secure_kafka(tmp_path_factory.mktemp("secure_kafka")) as broker:
        yield broker


@pytest.fixture
def unique() -> str:
    """A name for topics and groups of this test alone."""
    return f"t{uuid.uuid4().hex[:12]}"
