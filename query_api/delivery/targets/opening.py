"""From the stored members of a target to the object that delivers, and what is refused when one is created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from common.errors import InvalidInput, ServiceError
from common.settings import Settings
from query_api.delivery.addresses import private_address_message, private_address_of
from query_api.delivery.targets.kafka import KafkaTarget, names_own_topic
from query_api.delivery.targets.models import KafkaIn, TargetIn, WebhookIn
from query_api.delivery.targets.target import Target
from query_api.delivery.targets.webhook import WebhookTarget


def open_target(target: Mapping[str, Any], secrets: Mapping[str, Any], *, settings: Settings) -> Target:
    """Return what delivers to a target; it connects on first use."""
    delivery = settings.delivery
    match target["kind"]:
        case "webhook":
            return WebhookTarget(
                target["url"],
                secrets["secret"],
                timeout_s=delivery.timeout_s,
                private_addresses=delivery.private_addresses == "on",
            )
        case "kafka":
            return KafkaTarget(target["bootstrap"], target["topic"], own=settings.kafka, timeout_s=delivery.timeout_s)
        case kind:
            raise ServiceError(f"There is no target of the kind {kind}.")


async def refuse_forbidden(target: TargetIn, *, settings: Settings, at: str) -> None:
    """Raise ``InvalidInput`` for a target that this installation does not allow. ``at`` is its path in the request."""
    match target:
        case WebhookIn():
            await refuse_private(target.url, settings=settings, at=f"{at}.url")
        case KafkaIn():
            if names_own_topic(target.bootstrap, target.topic, settings.kafka):
                raise InvalidInput(
                    f"{at}.topic: Clearspan itself uses '{target.topic}', so spans would come back as new ones; allowed"
                    " are other topics."
                )
        case _:
            assert_never(target)


async def refuse_private(url: str, *, settings: Settings, at: str) -> None:
    """Raise ``InvalidInput`` if a URL names a private address and the setting does not allow it.

    A name that cannot be resolved now is checked again for each connection.
    """
    if settings.delivery.private_addresses == "on":
        return
    try:
        address = await private_address_of(url)
    except OSError:
        return
    if address is not None:
        raise InvalidInput(f"{at}: {private_address_message(address)}.")
