"""Invalid settings stop the start with a sentence that names the variable."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import ValidationError

from clearspan.environment import read_settings
from common.limits import MIB, NESTING_DEPTH_BOUND, SpanLimits
from common.settings import InvalidSettings, KafkaSettings, LimitSettings, PostgresSettings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("CLEARSPAN_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", ["CLEARSPAN_PORT", "clearspan_port", "Clearspan_Ingest__Batch"])
def test_unknown_variable_is_named_in_any_case(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")

    with pytest.raises(InvalidSettings, match=rf"^{name} is not a setting of Clearspan\."):
        read_settings()


def test_setting_may_be_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("clearspan_api_port", "8099")

    assert read_settings().api_port == 8099


def test_networks_are_a_list_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_DELIVERY__REFUSED_NETWORKS", '["192.0.2.0/24", "2001:db8::/32", "198.51.100.7"]')

    found = read_settings().delivery.refused_networks

    assert [str(network) for network in found] == ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"]


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
        ("CLEARSPAN_DELIVERY__REFUSED_NETWORKS", '["10.0.0.1/8"]'),
        ("CLEARSPAN_DELIVERY__REFUSED_NETWORKS", '["example.com"]'),
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
def test_invalid_value_is_named_in_a_sentence(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(InvalidSettings, match=rf"^{name} is invalid: .+\.$"):
        read_settings()


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        (
            '{"My.spans": {"encoding": "otlp"}}',
            "'My.spans'.encoding: Input should be 'otlp_proto', 'otlp_json' or 'span_json'.",
        ),
        (
            '{"mine": {"encoding": "span_json", "trust_project": false}}',
            "'mine': Input should have a project_id if trust_project is false.",
        ),
        ('{"spans": {"encoding": "span_json", "project": 1}}', "'spans'.project: Extra inputs are not permitted."),
        (
            '{"mine": {"encoding": "span_json", "signal": "logs"}}',
            "'mine': Input should have the encoding otlp_proto or otlp_json if signal is logs.",
        ),
        ('{"mine": {"encoding": "otlp_json", "signal": "x"}}', "'mine'.signal: Input should be 'traces' or 'logs'."),
    ],
)
def test_error_in_a_topic_names_the_setting_and_the_topic(
    monkeypatch: pytest.MonkeyPatch, topics: str, message: str
) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__TOPICS", topics)

    with pytest.raises(InvalidSettings) as raised:
        read_settings()

    assert str(raised.value) == f"CLEARSPAN_KAFKA__TOPICS is invalid: {message}"


def test_topic_that_the_worker_writes_must_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__TOPICS", '{"spans.dead_letter": {"encoding": "otlp_proto"}}')

    with pytest.raises(InvalidSettings, match=r"^CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC is invalid: .+ the worker reads"):
        read_settings()


@pytest.mark.parametrize(("topic", "name"), [("spans", "INTAKE"), ("otlp_spans", "OTLP")])
def test_topic_of_spans_over_http_must_be_trusted(monkeypatch: pytest.MonkeyPatch, topic: str, name: str) -> None:
    settings = {"encoding": "span_json", "project_id": str(UUID(int=1)), "trust_project": False}
    monkeypatch.setenv("CLEARSPAN_KAFKA__TOPICS", json.dumps({topic: settings}))

    with pytest.raises(InvalidSettings, match=rf"^CLEARSPAN_KAFKA__{name}_TOPIC is invalid: .+ trust_project is not"):
        read_settings()


@pytest.mark.parametrize(
    ("topic", "name", "signal"),
    [("spans", "INTAKE", "logs"), ("otlp_spans", "OTLP", "logs"), ("otlp_logs", "LOGS", "traces")],
)
def test_topic_of_what_arrives_over_http_has_its_signal(
    monkeypatch: pytest.MonkeyPatch, topic: str, name: str, signal: str
) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__TOPICS", json.dumps({topic: {"encoding": "otlp_proto", "signal": signal}}))
    other = {"logs": "traces", "traces": "logs"}[signal]

    with pytest.raises(InvalidSettings, match=rf"^CLEARSPAN_KAFKA__{name}_TOPIC is invalid: .+ signal is {other}"):
        read_settings()


@pytest.mark.parametrize(
    "servers", ["kafka", "kafka-1:9092,kafka-2:9093", "[::1]:9092", "::1", "10.0.0.1:19092, kafka-2:65535"]
)
def test_bootstrap_is_hosts_with_or_without_a_port(monkeypatch: pytest.MonkeyPatch, servers: str) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__BOOTSTRAP", servers)

    assert read_settings().kafka.bootstrap == servers


@pytest.mark.parametrize("host", ["clickhouse", "ch_1.example.org", "10.0.0.1", "::1", "[fd00::1]"])
def test_clickhouse_host_is_a_name_or_an_address(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_CLICKHOUSE__HOST", host)

    assert read_settings().clickhouse.host == host


@pytest.mark.parametrize(("value", "file"), [("", None), ("/etc/prices.csv", Path("/etc/prices.csv"))])
def test_prices_file_is_a_path_or_none(monkeypatch: pytest.MonkeyPatch, value: str, file: Path | None) -> None:
    monkeypatch.setenv("CLEARSPAN_INGEST__PRICES_FILE", value)

    assert read_settings().ingest.prices_file == file


def test_topics_that_the_worker_writes_can_be_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC", "dead")
    monkeypatch.setenv("CLEARSPAN_KAFKA__STORED_TOPIC", "stored")

    kafka = read_settings().kafka

    assert (kafka.dead_letter_topic, kafka.stored_topic) == ("dead", "stored")


def test_span_limits_are_the_settings() -> None:
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
def test_postgres_dsn_is_accepted(dsn: str) -> None:
    assert PostgresSettings.model_validate({"dsn": dsn}).dsn.get_secret_value() == dsn


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("", "begins with"),
        ("nonsense", "begins with"),
        ("postgresql", "begins with"),
        ("mysql://db/clearspan", "begins with"),
        ("postgresql+asyncpg://user:secret@db/clearspan", "begins with"),
        ("postgresql://db:port/clearspan", "not a number"),
        ("postgresql://db:65536/clearspan", "not a number"),
        ("postgresql://user:secret/of@db/clearspan", "percent-encode"),
        ("postgresql://user:secret@db/clearspan?sslmode=bogus", "sslmode in it is not one of allow, "),
    ],
)
def test_invalid_postgres_dsn_is_rejected_without_quoting_it(dsn: str, reason: str) -> None:
    with pytest.raises(ValidationError) as rejected:
        PostgresSettings.model_validate({"dsn": dsn})

    [error] = rejected.value.errors()
    assert (error["loc"], reason in error["msg"], "secret" in error["msg"]) == (("dsn",), True, False)


def test_age_of_cold_spans_needs_a_storage_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_CLICKHOUSE__HOT_DAYS", "7")

    with pytest.raises(InvalidSettings, match=r"^CLEARSPAN_CLICKHOUSE__HOT_DAYS is invalid: .+STORAGE_POLICY names a"):
        read_settings()

    monkeypatch.setenv("CLEARSPAN_CLICKHOUSE__STORAGE_POLICY", "tiered")
    assert read_settings().clickhouse.hot_days == 7.0


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"TLS__CA_FILE": "/ca.pem"}, "TLS__… is invalid: Input has no effect unless .+PROTOCOL is SSL or SASL_SSL"),
        ({"SASL__USERNAME": "ada"}, "SASL__… is invalid: Input has no effect unless .+ is SASL_SSL or SASL_PLAINTEXT"),
        ({"SECURITY_PROTOCOL": "SASL_SSL"}, "SASL__… is invalid: .+=SASL_SSL needs a MECHANISM"),
        (
            {"SECURITY_PROTOCOL": "SASL_SSL", "SASL__MECHANISM": "PLAIN", "SASL__USERNAME": "ada"},
            "SASL__… is invalid: .+ with PLAIN needs a USERNAME and a PASSWORD",
        ),
        (
            {"SECURITY_PROTOCOL": "SASL_SSL", "SASL__MECHANISM": "OAUTHBEARER"},
            "SASL__… is invalid: .+ with OAUTHBEARER needs either a TOKEN_FILE or a TOKEN_FUNCTION",
        ),
        ({"SASL__MECHANISM": "GSSAPI"}, "SASL__MECHANISM is invalid: Input should be '', 'PLAIN'"),
        ({"SECURITY_PROTOCOL": "TLS"}, "SECURITY_PROTOCOL is invalid: Input should be 'PLAINTEXT', 'SSL'"),
        ({"SASL__TOKEN_FUNCTION": "tokens"}, "SASL__TOKEN_FUNCTION is invalid: String should match pattern"),
        (
            {
                "SECURITY_PROTOCOL": "SASL_SSL",
                "SASL__MECHANISM": "OAUTHBEARER",
                "SASL__TOKEN_FUNCTION": "no_such_module:token",
            },
            "SASL__TOKEN_FUNCTION is invalid: no_such_module:token cannot be loaded: ModuleNotFoundError",
        ),
        (
            {
                "SECURITY_PROTOCOL": "SASL_SSL",
                "SASL__MECHANISM": "OAUTHBEARER",
                "SASL__TOKEN_FUNCTION": "os:sep",
            },
            "SASL__TOKEN_FUNCTION is invalid: os:sep is not a function",
        ),
        (
            {"SECURITY_PROTOCOL": "SSL", "TLS__CA_FILE": "/nowhere/ca.pem"},
            "TLS__CA_FILE is invalid: the file '/nowhere/ca.pem' cannot be read: No such file or directory",
        ),
    ],
)
def test_connection_to_kafka_that_cannot_work_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], reason: str
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(f"CLEARSPAN_KAFKA__{name}", text)

    with pytest.raises(InvalidSettings, match=rf"^CLEARSPAN_KAFKA__{reason}"):
        read_settings()


def test_other_cluster_gets_no_user_and_no_certificate() -> None:
    secured = {
        "security_protocol": "SASL_SSL",
        "sasl": {"mechanism": "PLAIN", "username": "ada", "password": "S3CR3T"},
        "tls": {"check_hostname": "off"},
        "client_rack": "a",
    }
    there = KafkaSettings.model_validate(secured).unsecured_at("there:9092")

    assert there == KafkaSettings(bootstrap="there:9092")
