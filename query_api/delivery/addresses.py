"""Which addresses a target over HTTP may reach: public ones, unless ``CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES`` is on.

A project chooses the address, and the process that delivers may reach systems that the project must not. The address
is checked when a subscription is created, so that the user learns it at once, and again for each connection after the
name was resolved, because the answer of a name server may change in between.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Final, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

from common.delivery_settings import DeliverySettings
from common.host_names import resolve
from query_api.delivery.special_networks import addresses_inside, purpose_of

SETTING: Final = "CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES"
NETWORKS_SETTING: Final = "CLEARSPAN_DELIVERY__REFUSED_NETWORKS"


Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]


class RefusedAddressError(OSError):
    """An address is not allowed; the message says why."""


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Which addresses may be reached (``DeliverySettings``)."""

    private_addresses: bool = False
    refused_networks: Networks = ()

    @classmethod
    def of(cls, settings: DeliverySettings) -> AddressRules:
        """Return the rules of an installation."""
        return cls(settings.private_addresses == "on", tuple(settings.refused_networks))

    def refusal(self, address: str) -> str | None:
        """Return why an IP address may not be reached, or ``None`` if it may."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return f"'{address[:100]}' is not an IP address"
        for network in self.refused_networks:
            if any(each in network for each in addresses_inside(found)):
                return f"the address {address} is in {network}, which the setting {NETWORKS_SETTING} refuses"
        if self.private_addresses or (purpose := purpose_of(found)) is None:
            return None
        return f"the address {address} is not public ({purpose}); allowed are public ones, unless {SETTING} is on"

    def connector(self) -> aiohttp.TCPConnector:
        """Return a connector whose sockets reach only allowed addresses; others raise ``RefusedAddressError``."""
        return aiohttp.TCPConnector(limit=4, socket_factory=self._socket, resolver=_Resolver())

    def _socket(self, info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
        if (refusal := self.refusal(str(address[0]))) is not None:
            raise RefusedAddressError(refusal)
        found = socket.socket(family, kind, protocol)
        found.setblocking(False)  # noqa: FBT003 - the method takes it by position
        return found


class _Resolver(AbstractResolver):
    """Resolves names for a connector as ``common.host_names`` does."""

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises as ``common.host_names.resolve``."""
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=found,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, protocol, _, address in await resolve(host, port)
            if family in (found, socket.AF_UNSPEC)
        ]

    @override
    async def close(self) -> None:
        """Do nothing: no resource is held."""


async def refusal_of_host(url: str, rules: AddressRules) -> str | None:
    """Return why an address of the host may not be reached, or ``None``. Raises as ``resolve``."""
    refusals = (rules.refusal(str(info[4][0])) for info in await resolve(URL(url).host or ""))
    return next((refusal for refusal in refusals if refusal is not None), None)
