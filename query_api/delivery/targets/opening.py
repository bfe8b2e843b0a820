"""From the stored members of a target to the object that delivers, and what is refused when one is created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never
from uuid import UUID

from common.errors import InvalidInput, ServiceError
from common.settings import Settings
from query_api.delivery.addresses import AddressRules, refusal_of_host
from query_api.delivery.targets.kafka import KafkaTarget, names_own_topic
from query_api.delivery.targets.models import (
    SENT_TO,
    KafkaIn,
    OtlpIn,
    ParquetIn,
    TargetIn,
    WebhookIn,
    public_members,
    secret_members,
)
from query_api.delivery.targets.otlp import OtlpTarget
from query_api.delivery.targets.parquet import ParquetPlaces, ParquetTarget, folder_of
from query_api.delivery.targets.target import MessageTarget, Target
from query_api.delivery.targets.webhook import WebhookTarget, new_secret


def open_target(
    target: Mapping[str, Any], secrets: Mapping[str, Any], *, settings: Settings, project_id: UUID
) -> Target:
    """Return what delivers spans of a project to a target; it connects on first use."""
    delivery = settings.delivery
    match target["kind"]:
        case "otlp":
            return OtlpTarget(
                target["endpoint"],
                secrets.get("headers") or {},
                ag=target.get("ag", False),
                timeout_s=delivery.timeout_s,
                rules=AddressRules.of(delivery),
            )
        case "parquet":
            return ParquetTarget(folder_of(target["url"], parquet_places(settings, project_id)))
        case _:
            return open_message_target(target, secrets, settings=settings)


def open_message_target(
    target: Mapping[str, Any], secrets: Mapping[str, Any], *, settings: Settings
) -> WebhookTarget | KafkaTarget:
    """Return what delivers spans, or the messages of an alert, to a target; it connects on first use."""
    delivery = settings.delivery
    match target["kind"]:
        case "webhook":
            return WebhookTarget(
                target["url"], secrets["secret"], timeout_s=delivery.timeout_s, rules=AddressRules.of(delivery)
            )
        case "kafka":
            return KafkaTarget(
                target,
                secrets,
                own=settings.kafka,
                timeout_s=delivery.timeout_s,
                refused_networks=AddressRules.of(delivery).refused_networks,
            )
        case kind:
            raise ServiceError(f"A target of the kind {kind} takes no messages, or does not exist.")


def parquet_places(settings: Settings, project_id: UUID) -> ParquetPlaces:
    """Return where a project may write files."""
    delivery = settings.delivery
    return ParquetPlaces(
        project_id,
        delivery.parquet_directory,
        tuple(delivery.s3_buckets),
        delivery.s3_endpoint,
        delivery.s3_region,
        delivery.timeout_s,
    )


async def refuse_forbidden(target: TargetIn, *, settings: Settings, project_id: UUID, at: str) -> None:
    """Raise ``InvalidInput`` for a target that this installation does not allow. ``at`` is its path in the request."""
    match target:
        case WebhookIn():
            await refuse_address(target.url, settings=settings, at=f"{at}.url")
        case KafkaIn():
            if target.contradiction is not None:  # not an error of the model, which would repeat the password
                raise InvalidInput(f"{at}.{target.contradiction}.")
            if names_own_topic(target.bootstrap, target.topic, settings.kafka):
                raise InvalidInput(
                    f"{at}.topic: Clearspan itself uses '{target.topic}', so spans would come back as new ones; allowed"
                    " are other topics."
                )
        case OtlpIn():
            await refuse_address(target.endpoint, settings=settings, at=f"{at}.endpoint")
        case ParquetIn():
            folder_of(target.url, parquet_places(settings, project_id), at=f"{at}.url")
        case _:
            assert_never(target)


def refuse_spans_only(target: TargetIn, *, at: str) -> None:
    """Raise ``InvalidInput`` for a target that takes spans but no messages. ``at`` is its path in the request."""
    if not isinstance(target, WebhookIn | KafkaIn):
        raise InvalidInput(
            f"{at}.kind: '{target.kind}' takes spans, and an alert sends messages; allowed: webhook, kafka."
        )


async def refuse_address(url: str, *, settings: Settings, at: str) -> None:
    """Raise ``InvalidInput`` if a URL names an address that the settings do not allow.

    A name that cannot be resolved now is checked again for each connection. Raises ``Overloaded`` as ``resolve``.
    """
    try:
        refusal = await refusal_of_host(url, AddressRules.of(settings.delivery))
    except OSError:
        return
    if refusal is not None:
        raise InvalidInput(f"{at}: {refusal}.")


def kept_secrets(target: TargetIn, before: Mapping[str, Any], stored: Mapping[str, Any], *, at: str) -> dict[str, Any]:
    """Return which secrets of the target ``before`` an edited one keeps: those of the same kind.

    ``at`` is its path in the request. Raises ``InvalidInput`` if a secret would be kept and sent to another system:
    reads do not show it, and neither may a server that the editor chooses.
    """
    if before["kind"] != target.kind:
        return {}
    members, given = public_members(target), secret_members(target)
    moved = [name for name in SENT_TO.get(target.kind, ()) if members.get(name) != before.get(name)]
    if moved and (hidden := [name for name in stored if name not in given and _is_sent(target, name)]):
        raise InvalidInput(f"{at}.{hidden[0]}: give it again, because {at}.{moved[0]} changes where it is sent.")
    return {name: value for name, value in stored.items() if _is_sent(target, name)}


def _is_sent(target: TargetIn, secret: str) -> bool:
    """Return whether a target uses a secret: one of Kafka without a user has no password."""
    return not isinstance(target, KafkaIn) or secret != "password" or target.sasl_mechanism is not None  # noqa: S105


def secrets_to_store(target: TargetIn, stored: Mapping[str, Any], *, at: str) -> tuple[dict[str, Any], str | None]:
    """Return the secrets of a target, and the one that was made for it. ``stored`` are those that it keeps.

    Raises ``InvalidInput`` if one is missing.
    """
    secrets = {**stored, **secret_members(target)}
    if isinstance(target, KafkaIn) and target.sasl_mechanism is not None and "password" not in secrets:
        raise InvalidInput(f"{at}.password: the password of {target.username!r} is missing.")
    if target.kind == "webhook" and "secret" not in secrets:
        made = new_secret()
        return {**secrets, "secret": made}, made
    return secrets, None


async def unreachable_warning(target: Target | MessageTarget) -> str | None:
    """Return what a user reads about a target that cannot be reached now, or ``None``; close the target."""
    try:
        reason = await target.check()
    except ServiceError as exc:
        reason = exc.public_message
    finally:
        await target.close()
    return None if reason is None else f"The target cannot be reached now: {reason.rstrip('.')}. Delivery is retried."
