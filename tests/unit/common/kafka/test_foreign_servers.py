"""What a cluster that a project chose may cost the process."""

from __future__ import annotations

import pytest
from aiokafka import conn

from common.kafka.driver import prepare_driver
from common.kafka.foreign_servers import ITERATIONS_MAX, RefusedServer


@pytest.fixture
def authenticator() -> conn.ScramAuthenticator:
    prepare_driver()
    return conn.ScramAuthenticator(
        loop=None, sasl_plain_password="x", sasl_plain_username="u", sasl_mechanism="SCRAM-SHA-256"
    )


@pytest.mark.parametrize("iterations", [ITERATIONS_MAX + 1, 2**31 - 1, 0, -1])
def test_server_cannot_say_how_long_a_password_is_computed(
    authenticator: conn.ScramAuthenticator, iterations: int
) -> None:
    first = f"r={authenticator._nonce}x,s=c2FsdA==,i={iterations}"

    with pytest.raises(RefusedServer, match=f"the broker asks for {iterations} iterations of SCRAM"):
        authenticator.process_server_first_message(first)


def test_usual_number_is_computed(authenticator: conn.ScramAuthenticator) -> None:
    authenticator.process_server_first_message(f"r={authenticator._nonce}x,s=c2FsdA==,i=16384")

    assert authenticator.final_message().startswith("c=biws,r=")
