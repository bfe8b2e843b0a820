"""Certificates of connections: renewed files are read by the next connection, and refusals are explained."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.tls import TlsNames, TlsSettings, tls_context, tls_failure
from tests.support.certificates import Authority

NAMES = TlsNames.of("CLEARSPAN_X__TLS", protocol="CLEARSPAN_X__PROTOCOL")


def _settings(**members: object) -> TlsSettings:
    return TlsSettings.model_validate(members)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def _server(file: Path, *, trusting: Path | None = None) -> AsyncIterator[int]:
    """Serve TLS; each connection gets the serial number of the certificate of its client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    if trusting is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusting)

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert") or {}
        writer.write(str(certificate.get("serialNumber", "none")).encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _connect(port: int, settings: TlsSettings) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls_context(settings))
        try:
            return await reader.read()
        finally:
            writer.close()


async def test_renewed_certificate_is_used_by_the_next_connection(authority: Authority) -> None:
    server, client = authority.issue("server"), authority.issue("client")
    settings = _settings(ca_file=authority.file, certificate_file=client)
    async with _server(server, trusting=authority.file) as port:
        first, again = await _connect(port, settings), await _connect(port, settings)
        renewed = authority.issue("renewed")
        renewed.replace(client)
        second = await _connect(port, settings)
        client.write_text("half of a fi")
        third = await _connect(port, settings)

    assert first == again != second == third


async def test_renewed_authority_is_trusted_by_the_next_connection(authority: Authority, tmp_path: Path) -> None:
    settings = _settings(ca_file=authority.file)
    other = Authority(tmp_path / "other")
    async with _server(other.issue("server")) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await _connect(port, settings)
        other.file.replace(authority.file)
        assert await _connect(port, settings) == b"none"


@pytest.mark.parametrize(
    ("hosts", "days", "members", "reason"),
    [
        (["example.org"], (-1, 1), {}, "is of another name: .+; see CLEARSPAN_X__TLS__CHECK_HOSTNAME"),
        (["127.0.0.1"], (-2, -1), {}, "the server's certificate has expired"),
        (["127.0.0.1"], (1, 2), {}, "is not valid yet: compare the clocks"),
        (["127.0.0.1"], (-1, 1), {"ca_file": None}, "is not trusted: .+; see CLEARSPAN_X__TLS__CA_FILE"),
    ],
    ids=["name", "expired", "future", "authority"],
)
async def test_refused_certificate_is_explained(
    hosts: list[str], days: tuple[int, int], members: dict[str, object], reason: str, authority: Authority
) -> None:
    async with _server(authority.issue("server", hosts=hosts, days=days)) as port:
        with pytest.raises(ssl.SSLError) as raised:
            await _connect(port, _settings(**{"ca_file": authority.file, **members}))

    outer = ConnectionError("outer")
    outer.__cause__ = raised.value
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(tls_failure(outer, NAMES))


async def test_name_is_not_checked_if_the_setting_says_so(authority: Authority) -> None:
    async with _server(authority.issue("server", hosts=["example.org"])) as port:
        assert await _connect(port, _settings(ca_file=authority.file, check_hostname="off")) == b"none"
