"""Every row of the IANA registries of special-purpose addresses, and what else deliveries must not reach.

https://www.iana.org/assignments/iana-ipv4-special-registry and …/iana-ipv6-special-registry (2025-10-09).
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest

from query_api.delivery.addresses import AddressRules

REFUSED_ROWS = [
    "0.0.0.0/8",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.9/32",
    "192.0.0.10/32",
    "192.0.0.170/32",
    "192.0.0.171/32",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.88.99.2/32",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::1/128",
    "::/128",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
]
GLOBAL_ROWS = ["192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24", "2620:4f:8000::/48"]
EMBEDDING_ROWS = ("::ffff:0:0/96", "64:ff9b::/96")
OTHERS = {
    "multicast": "224.0.0.0/4 ff00::/8",
    "the services of a cloud host": "168.63.129.16/32",
    "site-local": "fec0::/10",
    "IPv4-compatible": "::/96",
    "IPv4-translated": "::ffff:0:0:0/96",
    "not assigned": "4000::/3 8000::/3 e000::/4",
}


def _ends(network: str) -> tuple[str, str]:
    found = ip_network(network)
    return str(found.network_address), str(found[-1])


def test_row_that_is_not_global_is_refused() -> None:
    for row in (*REFUSED_ROWS, *(each for text in OTHERS.values() for each in text.split())):
        for address in _ends(row):
            assert "is not public" in str(AddressRules().refusal(address)), address
            assert AddressRules(private_addresses=True).refusal(address) is None, address


def test_row_that_is_global_is_allowed() -> None:
    for row in GLOBAL_ROWS:
        assert [AddressRules().refusal(address) for address in _ends(row)] == [None, None], row


@pytest.mark.parametrize("row", EMBEDDING_ROWS)
def test_embedded_address_decides(row: str) -> None:
    network = IPv6Network(row)
    for refused in (each for each in REFUSED_ROWS if ":" not in each):
        embedded = network[int(IPv4Network(refused).network_address)]
        assert AddressRules().refusal(str(embedded)) is not None, embedded
    assert AddressRules().refusal(str(network[0x08080808])) is None


NEIGHBORS = [
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2000::",
    "2001:200::",
    "2001:db7:ffff::",
    "2001:db9::",
    "2003::",
    "3ffe::",
    "3fff:1000::",
]
IN_REFUSED_NETWORKS = [
    "9.9.9.9",
    "::ffff:9.9.9.9",
    "64:ff9b::909:909",
    "2002:909:909::1",
    "2001:0:909:909::1",
    "2001::f6f6:f6f6",
    "2a00:1234::1",
]


@pytest.mark.parametrize("address", NEIGHBORS)
def test_neighbor_of_a_row_is_allowed(address: str) -> None:
    assert AddressRules().refusal(address) is None


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "0x7f000001", "fe80::1%eth0"])
def test_text_that_is_no_plain_address_is_refused(text: str) -> None:
    assert AddressRules().refusal(text) is not None


@pytest.mark.parametrize("private_addresses", [False, True])
@pytest.mark.parametrize("address", IN_REFUSED_NETWORKS)
def test_network_of_the_setting_is_refused_whatever_else_is_allowed(*, private_addresses: bool, address: str) -> None:
    networks = (ip_network("9.9.9.0/24"), ip_network("2a00:1234::/32"))

    refusal = AddressRules(private_addresses=private_addresses, refused_networks=networks).refusal(address)

    assert refusal is not None
    if private_addresses:
        assert "which the setting CLEARSPAN_DELIVERY__REFUSED_NETWORKS refuses" in refusal
