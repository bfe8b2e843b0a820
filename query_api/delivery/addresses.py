"""Which addresses a target over HTTP may reach: public ones, unless ``CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES`` is on.

A project chooses the address, and the process that delivers may reach systems that the project must not. The address
is checked when a subscription is created, so that the user learns it at once, and again for each connection after the
name was resolved, because the answer of a name server may change in between.
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

import aiohttp
from yarl import URL

SETTING: Final = "CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES"
_NAT64: Final = IPv6Network("64:ff9b::/96")
_SITE_LOCAL: Final = IPv6Network("fec0::/10")


class PrivateAddressError(OSError):
    """An address is not a public one."""


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet. An embedded IPv4 address counts, too."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(each.is_global and not each.is_multicast and not each.is_reserved for each in _reached_by(found))


def _reached_by(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """Return the addresses that a connection to this one may reach."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    if address in _SITE_LOCAL:
        return [IPv4Address(0)]
    return [address, *(each for each in (address.sixtofour, *(address.teredo or ())) if each is not None)]


async def private_address_of(url: str) -> str | None:
    """Return an address of the host that is not public, or ``None``. Raises ``OSError`` if it cannot be resolved."""
    host = URL(url).host or ""
    infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return next((str(info[4][0]) for info in infos if not is_public(str(info[4][0]))), None)


def private_address_message(address: str) -> str:
    """Return what a user reads about an address that is not allowed."""
    return f"the address {address} is loopback, link-local or private; allowed are public ones, unless {SETTING} is on"


def connector(*, private_addresses: bool) -> aiohttp.TCPConnector:
    """Return a connector whose sockets reach only allowed addresses; others raise ``PrivateAddressError``."""
    return aiohttp.TCPConnector(limit=4, socket_factory=None if private_addresses else _public_socket)


def _public_socket(info: Any) -> socket.socket:
    family, kind, protocol, _, address = info
    if not is_public(str(address[0])):
        raise PrivateAddressError(private_address_message(str(address[0])))
    found = socket.socket(family, kind, protocol)
    found.setblocking(False)  # noqa: FBT003 - the method takes it by position
    return found
