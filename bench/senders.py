"""Senders of records: at full rate to Kafka or OTLP/HTTP. A file holds the records meanwhile, so that making them takes
no processor time from what is measured.
"""

from __future__ import annotations

import asyncio
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

import aiohttp

from bench.harness import publish_all
from common.settings import KafkaSettings, Settings

CONNECTIONS: Final = 8
RETRY_S: Final = 0.2
HEADERS: Final = {"content-type": "application/x-protobuf"}
_SIZE: Final = struct.Struct("<I")


class Spool:
    """Records in a temporary file; iterating reads them from the beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        while size := self._file.read(_SIZE.size):
            yield self._file.read(_SIZE.unpack(size)[0])


@contextmanager
def spooled(records: Iterable[bytes]) -> Iterator[Spool]:
    """Write records to a temporary file, which is deleted after the context."""
    with tempfile.TemporaryFile() as file:
        for record in records:
            file.write(_SIZE.pack(len(record)) + record)
        yield Spool(file)


async def send_to_kafka(bootstrap: str, topic: str, records: Iterable[bytes]) -> None:
    """Publish all records; return when they are acknowledged."""
    kafka = KafkaSettings(bootstrap=bootstrap, request_timeout_s=120.0)
    await publish_all(Settings().model_copy(update={"kafka": kafka}), topic, records)


async def send_over_http(url: str, records: Iterable[bytes]) -> int:
    """Post each record; return how often a request was sent again because the server was busy.

    Raises ``aiohttp.ClientResponseError`` for every other refusal.
    """
    waiting = iter(records)
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector, headers=HEADERS) as session:
        again = await asyncio.gather(*(_post_all(session, url, waiting) for _ in range(CONNECTIONS)))
    return sum(again)


async def _post_all(session: aiohttp.ClientSession, url: str, waiting: Iterator[bytes]) -> int:
    again = 0
    for record in waiting:
        while not await _accepted(session, url, record):
            again += 1
            await asyncio.sleep(RETRY_S)
    return again


async def _accepted(session: aiohttp.ClientSession, url: str, record: bytes) -> bool:
    async with session.post(url, data=record) as response:
        if response.status in (429, 503):
            return False
        response.raise_for_status()
        await response.read()
        return True
