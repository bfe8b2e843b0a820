"""Which addresses a target over HTTP may reach: public ones, unless ``CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES`` is on.

A project chooses the address, and the process that delivers may reach systems that the project must not. The address
is checked when a subscription is created, so that the user learns it at once, and again for each connection after the
name was resolved, because the answer of a name server may change in between.

Networks that are not public are those of the IANA registries of special-purpose addresses that are not globally
reachable, and multicast. The module ``ipaddress`` knows other ones in each patch release of Python.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

from common.host_names import resolve
from common.settings import DeliverySettings

IPV4: Final[Mapping[IPv4Network, str]] = {
    IPv4Network("0.0.0.0/8"): "this network, RFC 791",
    IPv4Network("10.0.0.0/8"): "private use, RFC 1918",
    IPv4Network("100.64.0.0/10"): "shared address space, RFC 6598",
    IPv4Network("127.0.0.0/8"): "loopback, RFC 1122",
    IPv4Network("168.63.129.16/32"): "services of the host in Azure",
    IPv4Network("169.254.0.0/16"): "link-local, RFC 3927",
    IPv4Network("172.16.0.0/12"): "private use, RFC 1918",
    IPv4Network("192.0.0.0/24"): "protocol assignments, RFC 6890",
    IPv4Network("192.0.2.0/24"): "documentation, RFC 5737",
    IPv4Network("192.88.99.0/24"): "6to4 relays, RFC 7526",
    IPv4Network("192.168.0.0/16"): "private use, RFC 1918",
    IPv4Network("198.18.0.0/15"): "benchmarks, RFC 2544",
    IPv4Network("198.51.100.0/24"): "documentation, RFC 5737",
    IPv4Network("203.0.113.0/24"): "documentation, RFC 5737",
    IPv4Network("224.0.0.0/4"): "multicast, RFC 5771",
    IPv4Network("240.0.0.0/4"): "reserved, and limited broadcast, RFC 1112 and RFC 919",
}
"""What each is for."""

IPV6_GLOBAL: Final = IPv6Network("2000::/3")
"""The only unicast addresses that IANA assigns (RFC 4291). Loopback, link-local, unique local, site-local, multicast,
IPv4-compatible and discarded ones are outside."""

IPV6: Final[Mapping[IPv6Network, str]] = {
    IPv6Network("2001::/23"): "protocol assignments, Teredo among them, RFC 2928",
    IPv6Network("2001:db8::/32"): "documentation, RFC 3849",
    IPv6Network("2002::/16"): "6to4, RFC 7526",
    IPv6Network("3fff::/20"): "documentation, RFC 9637",
}
"""What is not public inside ``IPV6_GLOBAL``."""

IPV4_INSIDE: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""The last 32 bits of these addresses are the IPv4 address that is reached: IPv4-mapped (RFC 4291) and NAT64
(RFC 6052), which is what a name server of a network without IPv4 answers."""


def purpose_of(address: IPv4Address | IPv6Address) -> str | None:
    """Return what an address is for, in words, if it is not public; ``None`` if it is."""
    if isinstance(address, IPv4Address):
        return next((purpose for network, purpose in IPV4.items() if address in network), None)
    if any(address in network for network in IPV4_INSIDE):
        return purpose_of(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address not in IPV6_GLOBAL:
        return "outside of 2000::/3, RFC 4291"
    return next((purpose for network, purpose in IPV6.items() if address in network), None)


def addresses_inside(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """Return an address and the IPv4 addresses that are part of it: mapped, NAT64, 6to4 and Teredo."""
    if isinstance(address, IPv4Address):
        return [address]
    is_last = any(address in network for network in IPV4_INSIDE)
    inside = (IPv4Address(int(address) & 0xFFFF_FFFF) if is_last else None, address.sixtofour, *(address.teredo or ()))
    return [address, *(each for each in inside if each is not None)]


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
