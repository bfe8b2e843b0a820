"""Deliveries to names that are not resolved: what a user reads, for each kind of target."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest

from common import host_names
from common.settings import KafkaSettings, Settings
from query_api.delivery.targets.kafka import KafkaTarget
from query_api.delivery.targets.opening import open_message_target
from query_api.delivery.targets.target import TargetUnavailable
from tests.support.delivery import SECRET
from tests.support.ports import free_port

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "webhook": ({"kind": "webhook", "url": "http://slow.example/"}, {"secret": SECRET}),
    "kafka": ({"kind": "kafka", "bootstrap": "slow.example:9092", "topic": "t"}, {}),
}


@pytest.fixture
def _slow_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The name server of the zone never answers."""
    resolve, ends = socket.getaddrinfo, threading.Event()

    def look_up(host: str, port: int | None, *, flags: int = 0, **options: Any) -> Any:
        if host == "slow.example" and not flags & socket.AI_NUMERICHOST:
            ends.wait(120)
        return resolve(host, port, flags=flags, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(host_names, "LOOKUP_S", 0.1)
    yield
    ends.set()


@pytest.mark.usefixtures("_slow_names")
@pytest.mark.parametrize("kind", KINDS)
async def test_name_that_is_not_resolved_in_time_is_the_reason(kind: str) -> None:
    target = open_message_target(*KINDS[kind], settings=Settings(auth="off"))

    with pytest.raises(TargetUnavailable, match=r"the name 'slow\.example' was not resolved within 0\.1 s"):
        await target.send("m1", "alert.test", datetime.now(UTC), {"alert": "a"})
    assert "the name 'slow.example' was not resolved within 0.1 s" in str(await target.check())
    await target.close()


async def test_cluster_is_not_in_the_networks_of_the_setting() -> None:
    members = {"kind": "kafka", "bootstrap": f"localhost:{free_port()}", "topic": "t"}
    networks = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    target = KafkaTarget(members, {}, own=KafkaSettings(), timeout_s=30.0, refused_networks=networks)

    assert "which the setting CLEARSPAN_DELIVERY__REFUSED_NETWORKS refuses" in str(await target.check())
    await target.close()
