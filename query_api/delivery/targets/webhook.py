"""Delivers batches to an address by POST, as Standard Webhooks (https://www.standardwebhooks.com).

``webhook-id`` is the id of the batch, so a receiver that has seen it may ignore the batch. ``webhook-timestamp`` is the
time of the try, so that a receiver may reject what is older than some minutes.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from standardwebhooks import Webhook

from query_api.delivery.addresses import AddressRules
from query_api.delivery.targets.http import HttpSender
from query_api.delivery.targets.models import SECRET_PREFIX
from query_api.delivery.targets.target import DeliveryBatch

SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Return a random secret."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


class WebhookTarget:
    """One address and the secret that signs what is sent there."""

    def __init__(self, url: str, secret: str, *, timeout_s: float, rules: AddressRules) -> None:
        self._sender = HttpSender(url, timeout_s=timeout_s, rules=rules)
        self._webhook = Webhook(secret)

    async def deliver(self, batch: DeliveryBatch, /) -> None:
        """Send a batch. Raises as ``Target.deliver``."""
        kind, items = ("spans", batch.spans) if batch.traces is None else ("settled_traces", batch.traces)
        name = "spans" if batch.traces is None else "traces"
        await self.send(batch.id, kind, batch.created_at, {"subscription": batch.subscription, name: items})

    async def send(self, message_id: str, kind: str, created_at: datetime, data: Mapping[str, Any], /) -> None:
        """Send a message ``{"type": kind, "timestamp": …, "data": …}``. Raises as ``Target.deliver``."""
        body = orjson.dumps({"type": kind, "timestamp": created_at, "data": data}, option=orjson.OPT_UTC_Z)
        now = datetime.now(UTC)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._webhook.sign(message_id, now, body.decode()),
        }
        await self._sender.post(body, headers, reads_response=False)

    async def check(self) -> str | None:
        """Return why the address cannot be reached now, or ``None``."""
        return await self._sender.check()

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()
