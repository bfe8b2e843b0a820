"""Settings that stop the start: always with a sentence that names the variable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from common.limits import MIB, NESTING_DEPTH_BOUND, SpanLimits
from common.settings import IllegalSettings, LimitSettings, PostgresSettings, read_settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.upper().startswith("CLEARSPAN_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", ["CLEARSPAN_PORT", "clearspan_port", "Clearspan_Ingest__Batch"])
def test_a_variable_that_is_no_setting_is_named_in_capitals_or_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")

    with pytest.raises(IllegalSettings, match=rf"^{name} is not a setting of Clearspan\."):
        read_settings()


def test_a_setting_may_be_given_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("clearspan_api_port", "8099")

    assert read_settings().api_port == 8099


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLEARSPAN_KAFKA__TOPICS", "otlp_spans"),
        ("CLEARSPAN_KAFKA__TOPICS", "{"),
        ("CLEARSPAN_KAFKA__TOPICS", "[1]"),
        ("CLEARSPAN_KAFKA__TOPICS", "{}"),
        ("CLEARSPAN_KAFKA__BOOTSTRAP", ""),
        ("CLEARSPAN_KAFKA__BOOTSTRAP", "kafka:port"),
        ("CLEARSPAN_KAFKA__BOOTSTRAP", "kafka-1:9092,kafka-2:99092"),
        ("CLEARSPAN_KAFKA__BOOTSTRAP", "kafka:0"),
        ("CLEARSPAN_KAFKA__BOOTSTRAP", "kafka:65536"),
        ("CLEARSPAN_KAFKA__BOOTSTRAP", "kafka://kafka-1:9092"),
        ("CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC", "spans"),
        ("CLEARSPAN_KAFKA__STORED_TOPIC", "otlp_spans"),
        ("CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC", "x y"),
        ("CLEARSPAN_KAFKA__INTAKE_TOPIC", ""),
        ("CLEARSPAN_KAFKA__STORED_TOPIC", ".."),
        ("CLEARSPAN_KAFKA__OTLP_TOPIC", "t" * 250),
        ("CLEARSPAN_KAFKA__TOPICS", '{"a/b": {"encoding": "otlp_proto"}}'),
        ("CLEARSPAN_LIMITS__NESTING_DEPTH_MAX", str(NESTING_DEPTH_BOUND + 1)),
        ("CLEARSPAN_DATA_DIR", ""),
        ("CLEARSPAN_API_HOST", ""),
        ("CLEARSPAN_WORKER_HOST", ""),
        ("CLEARSPAN_CLICKHOUSE__HOST", ""),
        ("CLEARSPAN_CLICKHOUSE__HOST", "http://clickhouse"),
        ("CLEARSPAN_CLICKHOUSE__HOST", "clickhouse:8123"),
        ("CLEARSPAN_KAFKA__GROUP", ""),
        ("CLEARSPAN_KAFKA__MESSAGE_BYTES_MAX", str(1_024 * MIB + 1)),
        ("CLEARSPAN_ADMIN_KEY", "\udcff"),
        ("clearspan_admin_key", "\udcff"),
        ("CLEARSPAN_API_PORT", ""),
    ],
)
def test_what_cannot_be_read_stops_the_start_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(IllegalSettings, match=rf"^{name} is illegal: .+\.$"):
        read_settings()


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        (
            '{"My.spans": {"encoding": "otlp"}}',
            "'My.spans'.encoding: Input should be 'otlp_proto', 'otlp_json' or 'span_json'.",
        ),
        ('{"spans": {"encoding": "span_json", "project": 1}}', "'spans'.project: Extra inputs are not permitted."),
    ],
)
def test_what_is_wrong_in_a_topic_is_told_by_the_setting_and_the_topic_as_it_is_spelt(
    monkeypatch: pytest.MonkeyPatch, topics: str, told: str
) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__TOPICS", topics)

    with pytest.raises(IllegalSettings) as raised:
        read_settings()

    assert str(raised.value) == f"CLEARSPAN_KAFKA__TOPICS is illegal: {told}"


def test_a_topic_that_the_worker_writes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__TOPICS", '{"spans.dead_letter": {"encoding": "otlp_proto"}}')

    with pytest.raises(IllegalSettings, match=r"^CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC is illegal: .+ that are read"):
        read_settings()


@pytest.mark.parametrize(
    "servers", ["kafka", "kafka-1:9092,kafka-2:9093", "[::1]:9092", "::1", "10.0.0.1:19092, kafka-2:65535"]
)
def test_servers_are_hosts_with_or_without_a_port(monkeypatch: pytest.MonkeyPatch, servers: str) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__BOOTSTRAP", servers)

    assert read_settings().kafka.bootstrap == servers


@pytest.mark.parametrize("host", ["clickhouse", "ch_1.example.org", "10.0.0.1", "::1", "[fd00::1]"])
def test_a_host_of_clickhouse_is_a_name_or_an_address(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_CLICKHOUSE__HOST", host)

    assert read_settings().clickhouse.host == host


@pytest.mark.parametrize(("value", "file"), [("", None), ("/etc/prices.csv", Path("/etc/prices.csv"))])
def test_a_file_of_prices_is_a_path_or_none(monkeypatch: pytest.MonkeyPatch, value: str, file: Path | None) -> None:
    monkeypatch.setenv("CLEARSPAN_INGEST__PRICES_FILE", value)

    assert read_settings().ingest.prices_file == file


def test_topics_that_are_written_are_as_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC", "dead")
    monkeypatch.setenv("CLEARSPAN_KAFKA__STORED_TOPIC", "stored")

    kafka = read_settings().kafka

    assert (kafka.dead_letter_topic, kafka.stored_topic) == ("dead", "stored")


def test_codecs_obey_the_limits_that_are_set() -> None:
    limits = LimitSettings(
        record_bytes_max=1_001, span_bytes_max=1_002, nesting_depth_max=3, past_s_min=4, ahead_s_max=5
    )

    assert limits.span_limits() == SpanLimits(
        record_bytes_max=1_001,
        span_bytes_max=1_002,
        nesting_depth_max=3,
        past_ns_min=4_000_000_000,
        ahead_ns_max=5_000_000_000,
    )


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://clearspan@127.0.0.1:5432/clearspan",
        "postgres://user:p%2Fw@db/clearspan?sslmode=require",
        "postgresql://one:5432,two:65535/clearspan",
        "postgresql://user@[::1]:5432/clearspan",
        "postgresql://postgres:@/postgres?host=/run/a:b",
        "postgresql://",
    ],
)
def test_addresses_of_postgres_are_taken(dsn: str) -> None:
    assert PostgresSettings.model_validate({"dsn": dsn}).dsn.get_secret_value() == dsn


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("", "begins with"),
        ("nonsense", "begins with"),
        ("postgresql", "begins with"),
        ("mysql://db/clearspan", "begins with"),
        ("postgresql+asyncpg://user:secret@db/clearspan", "begins with"),
        ("postgresql://db:port/clearspan", "no number"),
        ("postgresql://db:65536/clearspan", "no number"),
        ("postgresql://user:secret/of@db/clearspan", "percent-encoded"),
        ("postgresql://user:secret@db/clearspan?sslmode=bogus", "sslmode in it is none of allow, "),
    ],
)
def test_what_is_no_address_of_postgres_is_refused_without_telling_it(dsn: str, reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        PostgresSettings.model_validate({"dsn": dsn})

    [error] = refused.value.errors()
    assert (error["loc"], reason in error["msg"], "secret" in error["msg"]) == (("dsn",), True, False)
