"""Publishes each span of a batch as a record: ``span_json``, with its trace_id as the key (contract §4, §9). A settled
trace is one record, with all its spans.

The records of spans can be read by another Clearspan. They do not name a project: the topic of the other one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

import orjson
from typing_extensions import override

from common.errors import ServiceError, TooLarge
from common.kafka.cluster import read_cluster_id
from common.kafka.idempotent import IdempotentProducer, Message
from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES
from common.kafka_settings import KafkaNames, SaslSettings
from common.settings import Encoding, KafkaSettings
from common.tls import TlsNames, TlsSettings
from query_api.delivery.addresses import AddressRules, Networks
from query_api.delivery.targets.target import DeliveryBatch, TargetRefused, TargetUnavailable

BATCH_HEADER: Final = "clearspan-batch-id"
SUBSCRIPTION_HEADER: Final = "clearspan-subscription"
MESSAGE_HEADER: Final = "clearspan-message-id"
TRACE_CONTENT_TYPE: Final = "application/json"


def own_topics(settings: KafkaSettings) -> frozenset[str]:
    """Return the topics that Clearspan reads or writes itself: spans delivered there would come back as new ones."""
    intake = {settings.intake_topic, settings.otlp_topic}
    return frozenset({*settings.topics, *intake, settings.dead_letter_topic, settings.stored_topic})


class KafkaTarget:
    """One topic of a cluster. A topic that Clearspan itself uses is refused, under whatever address it is reached."""

    def __init__(
        self,
        target: Mapping[str, Any],
        secrets: Mapping[str, Any],
        *,
        own: KafkaSettings,
        timeout_s: float,
        refused_networks: Networks = (),
    ) -> None:
        """``target`` and ``secrets`` have the members of ``KafkaIn``; ``own`` is the cluster of Clearspan itself.

        A cluster may have private addresses, but none in ``refused_networks``.
        """
        topic: str = target["topic"]
        self._topic = topic
        self._own = own
        self._there = _settings_there(target, secrets, own=own, timeout_s=timeout_s, refused_networks=refused_networks)
        self._producer = IdempotentProducer(self._there)
        self._is_checked = topic not in own_topics(own)

    async def deliver(self, batch: DeliveryBatch, /) -> None:
        """Publish the spans. Raises as ``Target.deliver``."""
        items, content_type = batch.spans, CONTENT_TYPES[Encoding.SPAN_JSON]
        if batch.traces is not None:
            items, content_type = batch.traces, TRACE_CONTENT_TYPE
        headers = [
            (CONTENT_TYPE_HEADER, content_type.encode()),
            (BATCH_HEADER, batch.id.encode()),
            (SUBSCRIPTION_HEADER, batch.subscription.encode()),
        ]
        await self._publish([Message(item["trace_id"].encode(), orjson.dumps(item), headers) for item in items])

    async def send(self, message_id: str, kind: str, created_at: datetime, data: Mapping[str, Any], /) -> None:
        """Publish a message ``{"type": kind, "timestamp": …, "data": …}`` as a record. Raises as ``Target.deliver``.

        Its key is the slug of its alert, so that the messages of an alert stay in order.
        """
        body = orjson.dumps({"type": kind, "timestamp": created_at, "data": data}, option=orjson.OPT_UTC_Z)
        headers = [(CONTENT_TYPE_HEADER, b"application/json"), (MESSAGE_HEADER, message_id.encode())]
        await self._publish([Message(str(data["alert"]).encode(), body, headers)])

    async def _publish(self, messages: Sequence[Message]) -> None:
        try:
            await self._refuse_own_topic()
            await self._producer.publish_all(self._topic, messages)
        except TooLarge as exc:
            raise TargetRefused(f"A record is larger than the topic takes: {exc.public_message}") from exc
        except ServiceError as exc:
            if exc.transient:
                raise TargetUnavailable(exc.detail) from exc
            raise TargetRefused(exc.detail) from exc

    async def check(self) -> str | None:
        """Return why the topic cannot be reached now, or ``None``."""
        try:
            count = await self._producer.partitions_count(self._topic)
        except ServiceError as exc:
            return exc.detail
        return None if count else f"there is no topic {self._topic}"

    async def close(self) -> None:
        """Disconnect."""
        await self._producer.close()

    async def _refuse_own_topic(self) -> None:
        """Raise ``TargetRefused`` if the topic is one of Clearspan's own, known by the id of the cluster."""
        if not self._is_checked:
            if await read_cluster_id(self._there) == await read_cluster_id(self._own):
                raise TargetRefused(f"Clearspan itself uses the topic {self._topic} of this cluster.")
            self._is_checked = True


class _TargetSettings(KafkaSettings):
    """Settings of the cluster of a target, which its own members name."""

    rules: AddressRules = AddressRules(private_addresses=True)

    is_foreign: ClassVar[bool] = True
    names: ClassVar[KafkaNames] = KafkaNames(
        TlsNames("target.security_protocol", "target.ca", "target", "target.bootstrap"),
        "target.sasl_mechanism",
        "target.username and target.password",
        "target",
    )

    @override
    def refusal_of(self, address: str, /) -> str | None:
        """Return why an IP address may not be reached, or ``None`` if it may."""
        return self.rules.refusal(address)


def _settings_there(
    target: Mapping[str, Any],
    secrets: Mapping[str, Any],
    *,
    own: KafkaSettings,
    timeout_s: float,
    refused_networks: Networks,
) -> KafkaSettings:
    """Return settings to reach the cluster of a target with the user of the target, never with that of Clearspan."""
    there = {
        "rules": AddressRules(private_addresses=True, refused_networks=refused_networks),
        "request_timeout_s": timeout_s,
        "security_protocol": target.get("security_protocol", "PLAINTEXT"),
        "tls": TlsSettings(ca=target.get("ca", "")),
        "sasl": SaslSettings(
            mechanism=target.get("sasl_mechanism", ""),
            username=target.get("username", ""),
            password=secrets.get("password", ""),
        ),
    }
    return _TargetSettings.model_construct(**{**dict(own.unsecured_at(target["bootstrap"])), **there})


def names_own_topic(bootstrap: str, topic: str, own: KafkaSettings) -> bool:
    """Return whether a target is, by its address, a topic that Clearspan itself uses."""
    return topic in own_topics(own) and not _servers(bootstrap).isdisjoint(_servers(own.bootstrap))


def _servers(bootstrap: str) -> frozenset[str]:
    return frozenset(server.strip() for server in bootstrap.split(","))
