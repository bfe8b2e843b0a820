"""A real Apache Kafka with TLS, SASL and ACLs: one broker with several listeners."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.protocol.admin import CreateAclsRequest

from common.kafka.cluster import open_admin
from common.kafka_settings import KafkaSettings
from tests.support.certificates import Authority
from tests.support.kafka import KAFKA, Broker, cluster_id_text, running_broker
from tests.support.ports import free_port

USER, PASSWORD = "ada", "p%41@ss:/?#word 'with' $signs"
STRANGER = "bob"
"""A user without any rights."""

SERVICES = ("producer", "worker", "api", "deliverer")
"""Users with the rights that a test grants them. All users have the same password."""

USERS = (USER, STRANGER, *SERVICES)
REAUTHENTICATE_MS = 3_000
"""How long the broker keeps a connection that a token has opened."""

RESOURCES = {"topic": 2, "group": 3, "cluster": 4}
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8}
LITERAL, ALLOW = 3, 3
"""Numbers of Kafka's protocol."""

LISTENERS = {
    "PLAIN_TEXT": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "MUTUAL": "SSL",
    "SECURE": "SASL_SSL",
    "WRONG_NAME": "SASL_SSL",
    "EXPIRED": "SASL_SSL",
    "OPEN_SASL": "SASL_PLAINTEXT",
}
"""The protocol of each listener. Nobody needs a user on the first, which has all rights."""

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True)
class SecureKafka:
    """A running broker, and the files with which clients connect."""

    broker: Broker
    ports: Mapping[str, int]
    authority: Path
    client: Path
    """Certificate and key of ``USER``; the key is encrypted with ``PASSWORD``."""

    def bootstrap(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def environment(self, listener: str = "SECURE", mechanism: str = "SCRAM-SHA-512", **changed: str) -> dict[str, str]:
        """Return the variables for a listener, without the prefix; ``changed`` replaces some."""
        protocol = LISTENERS[listener]
        variables = {"BOOTSTRAP": self.bootstrap(listener), "SECURITY_PROTOCOL": protocol}
        if protocol.endswith("SSL"):
            variables["TLS__CA_FILE"] = str(self.authority)
        if protocol.startswith("SASL"):
            variables |= {"SASL__MECHANISM": mechanism, "SASL__USERNAME": USER, "SASL__PASSWORD": PASSWORD}
        if listener == "MUTUAL":
            variables |= {"TLS__CERTIFICATE_FILE": str(self.client), "TLS__KEY_PASSWORD": PASSWORD}
        return {name: text for name, text in (variables | changed).items() if text}

    def settings(self, listener: str = "SECURE", mechanism: str = "SCRAM-SHA-512", **changed: str) -> KafkaSettings:
        """Return the settings for a listener; ``changed`` are variables without the prefix."""
        return settings_of(self.environment(listener, mechanism, **changed))


async def grant(kafka: SecureKafka, user: str, resource: str, name: str, operation: str) -> None:
    """Grant a user a right: the names are those of Kafka's own tools."""
    request = CreateAclsRequest(RESOURCES[resource], name, LITERAL, f"User:{user}", "*", OPERATIONS[operation], ALLOW)
    async with open_admin(kafka.settings()) as admin:
        response = await admin._send_request(request)
    assert [code for code, _ in response.creation_responses] == [0], response


def settings_of(variables: Mapping[str, str], **more: Any) -> KafkaSettings:
    """Return the settings of variables without their prefix."""
    values: dict[str, Any] = {"session_timeout_s": 2.0, **more}
    for name, text in variables.items():
        group, _, member = name.lower().partition("__")
        if member:
            values.setdefault(group, {})[member] = text
        else:
            values[group] = text
    return KafkaSettings.model_validate(values)


def token_of(user: str, *, lives_s: float = 3_600.0) -> str:
    """Return a token that Kafka's own validator for tests accepts: it is not signed."""
    now_s = int(time.time())
    claims = {"sub": user, "iat": now_s, "exp": now_s + lives_s}
    return ".".join(_in_base64(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)) + "."


def _in_base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@contextmanager
def secure_kafka(directory: Path) -> Iterator[SecureKafka]:
    """Start the broker, in about 350 MB."""
    authority = Authority(directory / "certificates")
    ports = {listener: free_port() for listener in LISTENERS}
    properties = directory / "server.properties"
    properties.write_text(_properties(authority, ports, directory / "data"))
    java = KAFKA.command()
    scram = [
        part
        for user in USERS
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for part in ("--add-scram", f"{mechanism}=[name={user},password={_quoted(PASSWORD)}]")
    ]
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id_text(), "-c", str(properties), *scram]
    formatted = subprocess.run(formatting, capture_output=True, text=True, timeout=180, check=False)
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr
    command = [*java, "kafka.Kafka", str(properties)]
    broker = Broker("Apache Kafka with TLS", ports["PLAIN_TEXT"], command, directory / "kafka.log")
    client = authority.issue("client", password=PASSWORD, user=USER)
    for running in running_broker(broker):
        yield SecureKafka(running, ports, authority.file, client)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _properties(authority: Authority, ports: Mapping[str, int], data: Path) -> str:
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    protocols = [f"{name}:{protocol}" for name, protocol in LISTENERS.items()]
    own = {
        "MUTUAL": authority.issue("server"),
        "SECURE": authority.issue("secure"),
        "WRONG_NAME": authority.issue("wrong", hosts=["kafka.example.org"]),
        "EXPIRED": authority.issue("expired", days=(-2, -1)),
    }
    lines = [
        "process.roles=broker,controller",
        "node.id=1",
        f"controller.quorum.voters=1@127.0.0.1:{ports['CONTROLLER']}",
        f"listeners={','.join(listeners)}",
        f"advertised.listeners={','.join(each for each in listeners if not each.startswith('CONTROLLER'))}",
        f"listener.security.protocol.map={','.join(protocols)}",
        "controller.listener.names=CONTROLLER",
        "inter.broker.listener.name=PLAIN_TEXT",
        f"log.dirs={data}",
        "offsets.topic.replication.factor=1",
        "offsets.topic.num.partitions=4",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=1000",
        "auto.create.topics.enable=false",
        "log.cleaner.enable=false",
        "broker.rack=a",
        "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"super.users=User:ANONYMOUS;User:{USER}",
        "ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
    ]
    for listener, file in own.items():
        prefix = f"listener.name.{listener.lower()}."
        lines += [
            f"{prefix}ssl.keystore.type=PEM",
            f"{prefix}ssl.keystore.location={file}",
            f"{prefix}ssl.truststore.type=PEM",
            f"{prefix}ssl.truststore.location={authority.file}",
        ]
    lines.append("listener.name.mutual.ssl.client.auth=required")
    for listener in ("secure", "wrong_name", "expired", "open_sasl"):
        lines += [f"listener.name.{listener}.{line}" for line in _logins()]
    return "\n".join(lines) + "\n"


def _logins() -> list[str]:
    """Return which users each mechanism knows."""
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    return [
        f"scram-sha-256.sasl.jaas.config={scram}",
        f"scram-sha-512.sasl.jaas.config={scram}",
        f"plain.sasl.jaas.config={plain} {users};",
        f"oauthbearer.connections.max.reauth.ms={REAUTHENTICATE_MS}",
        f'oauthbearer.sasl.jaas.config={oauth} unsecuredLoginStringClaim_sub="broker";',
    ]
