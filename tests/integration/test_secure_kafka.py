"""Clients of Kafka with TLS and SASL, against a real broker; and failures that name the setting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from common.errors import Unavailable
from common.kafka.cluster import ensure_topics, read_cluster_id
from common.kafka.consumer import KafkaSource
from common.kafka.idempotent import IdempotentProducer, Message
from common.kafka.log import KafkaLog
from common.kafka.offsets import KafkaEndOffsets, uncommitted
from common.kafka.producer import KafkaPublisher
from common.kafka.record import Encoding, Partition
from common.kafka_settings import KafkaSettings, TopicSettings
from query_api.delivery.targets.kafka import KafkaTarget
from query_api.delivery.targets.target import DeliveryBatch, TargetUnavailable
from tests.support.certificates import Authority
from tests.support.secure_kafka import MECHANISMS, PASSWORD, STRANGER, USER, SecureKafka, grant, settings_of, token_of

WITHIN_S = 60.0
PREFIX = "CLEARSPAN_KAFKA__"
NO_USER = {"SASL__USERNAME": "", "SASL__PASSWORD": ""}
BATCH = DeliveryBatch("b", "all", datetime(2026, 1, 1, tzinfo=UTC), [{"trace_id": "1"}, {"trace_id": "2"}])
TOKEN_CALLS: list[str] = []


async def nothing(_: frozenset[Partition]) -> None:
    """Does nothing when partitions move."""


async def a_token() -> str:
    """A function that a setting names."""
    TOKEN_CALLS.append(USER)
    return token_of(USER)


def no_token() -> str:
    """A function that a setting names, and that fails."""
    raise RuntimeError("S3CR3T")


async def eventually(attempt: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await attempt():  # noqa: ASYNC110 - it is the broker that is waited for
            await asyncio.sleep(0.05)


def _with_topic(settings: KafkaSettings, topic: str) -> KafkaSettings:
    topics = {topic: TopicSettings(encoding=Encoding.OTLP_PROTO)}
    return settings.model_copy(update={"group": topic, "topics": topics, "partitions": 1, "client_rack": "a"})


@pytest.mark.parametrize("way", [*MECHANISMS[:3], "MUTUAL", "OPEN_SASL"])
async def test_every_client_connects(secure: SecureKafka, unique: str, way: str) -> None:
    of_listener = secure.settings("SECURE", way) if way in MECHANISMS else secure.settings(way)
    settings = _with_topic(of_listener, unique)
    publisher, source, ends = KafkaPublisher(settings), KafkaSource(settings), KafkaEndOffsets(settings)
    idempotent = IdempotentProducer(settings)
    with capture_logs() as logs:
        await ensure_topics(settings)
        await publisher.publish(unique, b"0")
        await idempotent.publish_all(unique, [Message(b"", b"1")])
        await source.open(on_revoked=nothing, on_assigned=nothing)
        values: list[bytes | None] = []
        async with asyncio.timeout(WITHIN_S):
            while len(values) < 2:
                values += [record.value for record in await source.poll(timeout_s=0.1, records_max=10)]
        await source.commit({Partition(unique, 0): 1})
        left = await uncommitted(settings, [unique])
        [end] = (await ends.ask()).values()
        read = [record.value async for chunk in KafkaLog(settings).read(unique) for record in chunk]
        for client in (publisher, idempotent, source, ends):
            await client.close()

    assert (values, read, left, end) == ([b"0", b"1"], [b"0", b"1"], {Partition(unique, 0): 1}, 2)
    assert PASSWORD not in f"{settings!r} {settings.model_dump_json()} {logs}"


async def test_function_gives_a_token_for_each_connection(secure: SecureKafka) -> None:
    function = f"{__name__}:a_token"
    settings = secure.settings("SECURE", "OAUTHBEARER", SASL__TOKEN_FUNCTION=function, **NO_USER)
    before = len(TOKEN_CALLS)

    await read_cluster_id(settings)
    await read_cluster_id(settings)

    assert len(TOKEN_CALLS) >= before + 2


async def test_replaced_token_is_read_by_a_client_that_runs(secure: SecureKafka, unique: str, tmp_path: Path) -> None:
    """The broker closes connections when their time is over; the driver opens new ones."""
    file = tmp_path / "token"
    file.write_text(f"{token_of(USER)}\n")
    of_file = secure.settings("SECURE", "OAUTHBEARER", SASL__TOKEN_FILE=str(file), **NO_USER)
    settings = _with_topic(of_file, unique).model_copy(update={"request_timeout_s": 4.0})
    publisher = KafkaPublisher(settings)
    await ensure_topics(settings)
    await publisher.publish(unique, b"v")
    reasons: list[str] = []

    async def is_refused() -> bool:
        try:
            await publisher.publish(unique, b"v")
        except Unavailable as exc:
            reasons.append(exc.detail)
        return any("SASL__TOKEN_FILE" in reason for reason in reasons)

    async def is_published() -> bool:
        try:
            await publisher.publish(unique, b"v")
        except Unavailable:
            return False
        return True

    file.write_text(token_of(USER, lives_s=-100))
    await eventually(is_refused)
    file.write_text(token_of(USER))
    await eventually(is_published)

    await publisher.close()
    assert token_of(USER)[:20] not in "".join(reasons)


FAILURES = {
    "wrong password": ("SECURE", {"SASL__PASSWORD": "wrong"}, "refuses the credentials; see {}SASL__USERNAME and"),
    "wrong user": ("SECURE", {"SASL__USERNAME": "nobody"}, "refuses the credentials; see {}SASL__USERNAME and"),
    "untrusted authority": ("SECURE", {"TLS__CA_FILE": ""}, "is not trusted: .+; see {}TLS__CA_FILE"),
    "wrong name": ("WRONG_NAME", {}, "is of another name: .+; see {}TLS__CHECK_HOSTNAME"),
    "expired": ("EXPIRED", {}, "the server's certificate has expired"),
    "no client certificate": (
        "MUTUAL",
        {"TLS__CERTIFICATE_FILE": "", "TLS__KEY_PASSWORD": ""},
        "refuses the certificate of this client .+; see {}TLS__CERTIFICATE_FILE",
    ),
    "no TLS": (
        "SECURE",
        {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "TLS__CA_FILE": ""},
        "closed the connection at once: it may expect TLS, or not; see {}SECURITY_PROTOCOL",
    ),
    "TLS where there is none": (
        "PLAIN_TEXT",
        {"SECURITY_PROTOCOL": "SSL"},
        "closed the connection at once: it may expect TLS, or not; see {}SECURITY_PROTOCOL",
    ),
    "no user": (
        "OPEN_SASL",
        {"SECURITY_PROTOCOL": "PLAINTEXT", "SASL__MECHANISM": "", **NO_USER},
        "closed the connection: it may expect a user; see {}SECURITY_PROTOCOL",
    ),
    "user where there is none": (
        "PLAIN_TEXT",
        {
            "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "SASL__MECHANISM": "PLAIN",
            "SASL__USERNAME": USER,
            "SASL__PASSWORD": PASSWORD,
        },
        "expects no user on this port; see {}SECURITY_PROTOCOL",
    ),
    "no token": (
        "SECURE",
        {"SASL__MECHANISM": "OAUTHBEARER", "SASL__TOKEN_FILE": "/nowhere", **NO_USER},
        "no token: the file '/nowhere' cannot be read: No such file or directory; see {}SASL__TOKEN_FILE",
    ),
    "function fails": (
        "SECURE",
        {"SASL__MECHANISM": "OAUTHBEARER", "SASL__TOKEN_FUNCTION": f"{__name__}:no_token", **NO_USER},
        "no token: the function .+ raised RuntimeError; see {}SASL__TOKEN_FILE and {}SASL__TOKEN_FUNCTION",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_failure_names_the_setting_at_once(
    secure: SecureKafka, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener, changed, reason = FAILURES[failure]
    settings = secure.settings(listener, **changed).model_copy(update={"request_timeout_s": WITHIN_S})
    publisher, source = KafkaPublisher(settings), KafkaSource(settings)

    async def join() -> None:
        await source.open(on_revoked=nothing, on_assigned=nothing)

    async def publish() -> None:
        await publisher.publish("any", b"v")

    pattern = reason.replace("{}", PREFIX)
    loop = asyncio.get_running_loop()
    for operation in (lambda: ensure_topics(settings), join, publish):
        begun_s = loop.time()
        with pytest.raises(Unavailable, match=pattern) as raised:
            await operation()
        assert loop.time() - begun_s < WITHIN_S / 2
        assert raised.value.public_message == "Kafka is unavailable."
        assert "S3CR3T" not in raised.value.detail

    await publisher.close()
    await source.close()
    assert PASSWORD not in caplog.text


async def test_certificate_of_a_stranger_is_refused_in_words(secure: SecureKafka, tmp_path: Path) -> None:
    stranger = Authority(tmp_path).issue("stranger")
    settings = secure.settings("MUTUAL", TLS__CERTIFICATE_FILE=str(stranger), TLS__KEY_PASSWORD="")

    with pytest.raises(Unavailable, match=r"refuses the certificate of this client .+TLS__CERTIFICATE_FILE"):
        await read_cluster_id(settings)


async def test_name_of_the_certificate_need_not_be_checked(secure: SecureKafka) -> None:
    assert await read_cluster_id(secure.settings("WRONG_NAME", TLS__CHECK_HOSTNAME="off"))


async def test_first_of_several_brokers_may_be_down(secure: SecureKafka) -> None:
    addresses = f"[::1]:9,127.0.0.1:9,{secure.bootstrap('SECURE')}"

    for _ in range(5):
        assert await read_cluster_id(secure.settings(BOOTSTRAP=addresses))


async def test_missing_right_is_named(secure: SecureKafka, unique: str) -> None:
    await ensure_topics(_with_topic(secure.settings(), unique))
    settings = _with_topic(secure.settings(SASL__USERNAME=STRANGER), unique)
    publisher, source = KafkaPublisher(settings), KafkaSource(settings)

    with pytest.raises(Unavailable, match=rf"denies it to this user \(TopicAuthorizationFailed: {unique}\)"):
        await publisher.publish(unique, b"v")
    with pytest.raises(Unavailable, match=rf"denies it to this user \(TopicAuthorizationFailed: {unique}\)"):
        await source.open(on_revoked=nothing, on_assigned=nothing)
    await grant(secure, STRANGER, "topic", unique, "Read")
    with pytest.raises(Unavailable, match=rf"denies it to this user \(GroupAuthorizationFailed: {unique}\)"):
        await source.open(on_revoked=nothing, on_assigned=nothing)
    with pytest.raises(Unavailable, match=r"may not create the topic [\w.]+\. Create it"):
        await ensure_topics(_with_topic(settings, f"{unique}.new"))

    await publisher.close()
    await source.close()


async def test_target_has_a_user_of_its_own(secure: SecureKafka, unique: str) -> None:
    own = settings_of({"BOOTSTRAP": secure.bootstrap("PLAIN_TEXT")})
    await ensure_topics(_with_topic(own, unique))
    members = {
        "kind": "kafka",
        "bootstrap": secure.bootstrap("SECURE"),
        "topic": unique,
        "security_protocol": "SASL_SSL",
        "ca": secure.authority.read_text(),
        "sasl_mechanism": "SCRAM-SHA-512",
        "username": USER,
    }

    async def deliver(secrets: dict[str, str], own: KafkaSettings = own, **changed: str | None) -> None:
        given = {name: value for name, value in (members | changed).items() if value is not None}
        target = KafkaTarget(given, secrets, own=own, timeout_s=WITHIN_S)
        try:
            await target.deliver(BATCH)
        finally:
            await target.close()

    await deliver({"password": PASSWORD})
    with pytest.raises(TargetUnavailable, match=r"refuses the credentials; see target\.username and target\.password"):
        await deliver({"password": "wrong"})
    with pytest.raises(TargetUnavailable, match=r"not trusted: .+; see target\.ca"):
        await deliver({"password": PASSWORD}, ca=None)
    unsecured: dict[str, str | None] = dict.fromkeys(("security_protocol", "ca", "sasl_mechanism", "username"))
    with pytest.raises(TargetUnavailable, match=r"it may expect TLS, or not; see target\.security_protocol"):
        await deliver({}, secure.settings(), **unsecured)  # not with the user of Clearspan itself

    read = [record async for chunk in KafkaLog(own).read(unique) for record in chunk]
    assert len(read) == len(BATCH.spans)
