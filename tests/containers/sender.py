"""Spans for a stack in containers: one by one over any way in, or all the time while something else happens."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiokafka.errors import KafkaError

from tests.containers.stack import Stack
from tests.support.otlp import request
from tests.support.otlp_grpc import TRACES
from tests.support.produce import produce

PAUSE_S: Final = 0.1
GRPC: Final = """\
import sys, grpc
address, method, authorization = sys.argv[1:]
call = grpc.insecure_channel(address).unary_unary(method)
call(sys.stdin.buffer.read(), metadata=[("authorization", authorization)], wait_for_ready=True, timeout=120)
"""
"""A process of its own: threads of gRPC in this one may belong to another network."""


def send_by_kafka(stack: Stack, *names: str) -> None:
    """Publish one record with a span of each name; it belongs to the default project."""
    produce(stack.address("CLEARSPAN_KAFKA_PORT"), "otlp_spans", [request(names)])


def send_by_http(stack: Stack, *names: str) -> None:
    """Send OTLP to the port of SDKs."""
    stack.send("/v1/traces", request(names), port="CLEARSPAN_OTLP_HTTP_PORT", content_type="application/x-protobuf")


def send_by_grpc(stack: Stack, *names: str) -> None:
    """Send OTLP over gRPC to the port of SDKs."""
    address = stack.address("CLEARSPAN_OTLP_GRPC_PORT")
    command = [sys.executable, "-c", GRPC, address, TRACES, f"ApiKey {stack.key}"]
    subprocess.run(command, input=request(names), check=True)


class Sender(threading.Thread):
    """Sends spans through Kafka and HTTP in turn, each again until it is acknowledged."""

    def __init__(self, stack: Stack, label: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        """The names of spans that Kafka or the API has accepted."""
        self._stack = stack
        self._label = label
        self._is_over = threading.Event()

    def run(self) -> None:
        for number in itertools.count():
            name = f"{self._label}-{number}"
            while not self._is_sent(name, number):
                if self._is_over.wait(PAUSE_S):
                    return
            self.acknowledged.append(name)
            if self._is_over.wait(PAUSE_S):
                return

    def _is_sent(self, name: str, number: int) -> bool:
        send = send_by_kafka if number % 2 else send_by_http
        try:
            send(self._stack, name)
        except (KafkaError, OSError):
            return False
        return True

    def goes_on(self, count: int = 4) -> None:
        """Wait until this many more spans are acknowledged."""
        wanted = len(self.acknowledged) + count
        self._stack.until(lambda: len(self.acknowledged) >= wanted, what=f"{count} more spans are acknowledged")

    def stop(self) -> None:
        self._is_over.set()
        self.join()


@contextmanager
def sending(stack: Stack, label: str) -> Iterator[Sender]:
    """Send while inside."""
    sender = Sender(stack, label)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop()
