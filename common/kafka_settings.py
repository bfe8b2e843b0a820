"""The settings of Kafka: the broker, the topics and the consumer group."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, NamedTuple, Self, TypeAlias
from uuid import UUID

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from common.kafka.record import Encoding, Signal
from common.limits import MIB
from common.setting_types import File, Group, Name, Servers, Topic, checked_topic
from common.tls import TlsNames, TlsSettings


class TopicSettings(Group):
    """One topic that the worker reads."""

    encoding: Encoding
    project_id: UUID | None = None
    trust_project: bool = True
    signal: Signal = Signal.TRACES

    @model_validator(mode="after")
    def _have_a_project(self) -> Self:
        if not self.trust_project and self.project_id is None:
            raise PydanticCustomError("topic", "Input should have a project_id if trust_project is false")
        return self

    @model_validator(mode="after")
    def _be_readable(self) -> Self:
        if self.signal is Signal.LOGS and self.encoding is Encoding.SPAN_JSON:
            raise PydanticCustomError(
                "topic", "Input should have the encoding otlp_proto or otlp_json if signal is logs"
            )
        return self


def _default_topics() -> dict[str, TopicSettings]:
    return {
        "otlp_spans": TopicSettings(encoding=Encoding.OTLP_PROTO),
        "otlp_spans_json": TopicSettings(encoding=Encoding.OTLP_JSON),
        "spans": TopicSettings(encoding=Encoding.SPAN_JSON),
        "otlp_logs": TopicSettings(encoding=Encoding.OTLP_PROTO, signal=Signal.LOGS),
        "otlp_logs_json": TopicSettings(encoding=Encoding.OTLP_JSON, signal=Signal.LOGS),
    }


class SaslSettings(Group):
    """How Clearspan proves to the broker who it is."""

    mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = ""
    """Mechanism of SASL, if the security protocol has SASL."""
    username: str = ""
    """User for PLAIN and SCRAM."""
    password: SecretStr = SecretStr("")
    """Password of that user."""
    token_file: File = None
    """File with the token for OAUTHBEARER; it is read again for each connection."""
    token_function: str = Field("", pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$")
    """Function that returns the token, in place of the file: `module:function`, called without arguments for each
    connection; it may be asynchronous."""

    @property
    def problem(self) -> str | None:
        """What is wrong with the members together, in words; ``None`` if nothing is."""
        has_token = self.token_file is not None or self.token_function != ""
        has_user = self.username != "" or self.password.get_secret_value() != ""
        if not self.mechanism:
            return "needs a MECHANISM"
        if self.mechanism == "OAUTHBEARER":
            if has_user or (self.token_file is None) == (self.token_function == ""):
                return "with OAUTHBEARER needs either a TOKEN_FILE or a TOKEN_FUNCTION, and no USERNAME and PASSWORD"
            return None
        if has_token or not self.username or not self.password.get_secret_value():
            return f"with {self.mechanism} needs a USERNAME and a PASSWORD, and neither TOKEN_FILE nor TOKEN_FUNCTION"
        return None


class KafkaNames(NamedTuple):
    """What people call the settings of a connection to Kafka, for messages."""

    tls: TlsNames
    mechanism: str
    credentials: str
    token: str


_OWN_NAMES: Final = KafkaNames(
    TlsNames.of("CLEARSPAN_KAFKA__TLS", protocol="CLEARSPAN_KAFKA__SECURITY_PROTOCOL"),
    "CLEARSPAN_KAFKA__SASL__MECHANISM",
    "CLEARSPAN_KAFKA__SASL__USERNAME and CLEARSPAN_KAFKA__SASL__PASSWORD",
    "CLEARSPAN_KAFKA__SASL__TOKEN_FILE and CLEARSPAN_KAFKA__SASL__TOKEN_FUNCTION",
)

SecurityProtocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class KafkaSettings(Group):
    """The broker, the topics and the consumer group."""

    bootstrap: Servers = "127.0.0.1:9092"
    """Bootstrap servers, comma separated."""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    """How connections are protected, as the listener of the broker has it: SSL is TLS, SASL_… adds a user."""
    tls: TlsSettings = Field(default_factory=TlsSettings)
    sasl: SaslSettings = Field(default_factory=SaslSettings, validate_default=True)
    client_rack: str = Field("", max_length=255)
    """Rack (availability zone) of this process: records are read from a replica in the same rack, if the brokers have
    `replica.selector.class`; empty: from the leader."""
    group: Name = "clearspan"
    """Consumer group of the ingest worker."""
    topics: dict[str, TopicSettings] = Field(default_factory=_default_topics)
    """Topics that the worker reads: a JSON object of name → {encoding, signal?, project_id?, trust_project?}. `signal`
    is `traces` or `logs`. With `"trust_project": false` all its records belong to `project_id`, whatever they say."""
    intake_topic: Topic = Field("spans", validate_default=True)
    """Topic for spans that arrive over HTTP as JSON span objects; one of the topics that the worker reads."""
    otlp_topic: Topic = Field("otlp_spans", validate_default=True)
    """Topic for spans that arrive over HTTP as OTLP; one of the topics that the worker reads."""
    logs_topic: Topic = Field("otlp_logs", validate_default=True)
    """Topic for log records that arrive over HTTP or gRPC. If the worker does not read it, they are refused."""
    dead_letter_topic: Topic = Field("spans.dead_letter", validate_default=True)
    """Topic for rejected records and spans."""
    stored_topic: Topic = Field("spans.stored", validate_default=True)
    """Topic in which workers announce how far spans are stored; it has one partition."""
    partitions: int = Field(4, ge=1, le=1_000)
    """Partitions of a topic that is created at the start."""
    replication_factor: int = Field(1, ge=-1, le=10)
    """Replicas of a topic that is created at the start; -1 is the broker's default."""
    message_bytes_max: int = Field(12 * MIB, ge=1_000, le=1_024 * MIB)
    """Largest record that is produced or fetched, in bytes."""
    request_timeout_s: float = Field(10.0, gt=0, le=300)
    """Deadline of one request to the broker, in seconds."""
    session_timeout_s: float = Field(10.0, ge=1, le=300)
    """A worker that sends no heartbeat for this long loses its partitions, in seconds."""

    names: ClassVar[KafkaNames] = _OWN_NAMES
    is_foreign: ClassVar[bool] = False
    """Whether a project chose the cluster."""

    def refusal_of(self, _address: str, /) -> str | None:
        """Return why an IP address may not be reached, or ``None`` if it may."""
        return None

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether connections have a user."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def unsecured_at(self, bootstrap: str) -> Self:
        """Return the same settings for another cluster, without certificates and user: they are for this one."""
        plain = {"security_protocol": "PLAINTEXT", "tls": TlsSettings(), "sasl": SaslSettings(), "client_rack": ""}
        return self.model_copy(update={"bootstrap": bootstrap, **plain})

    @field_validator("tls")
    @classmethod
    def _have_an_effect(cls, tls: TlsSettings, info: ValidationInfo) -> TlsSettings:
        if tls.is_set and info.data.get("security_protocol") in ("PLAINTEXT", "SASL_PLAINTEXT"):
            sentence = "Input has no effect unless CLEARSPAN_KAFKA__SECURITY_PROTOCOL is SSL or SASL_SSL"
            raise PydanticCustomError("tls", sentence)
        return tls

    @field_validator("sasl")
    @classmethod
    def _belong_together(cls, sasl: SaslSettings, info: ValidationInfo) -> SaslSettings:
        protocol = info.data.get("security_protocol", "PLAINTEXT")
        if protocol in ("PLAINTEXT", "SSL"):
            if sasl != SaslSettings():
                sentence = "Input has no effect unless CLEARSPAN_KAFKA__SECURITY_PROTOCOL is SASL_SSL or SASL_PLAINTEXT"
                raise PydanticCustomError("sasl", sentence)
        elif sasl.problem is not None:
            context = {"protocol": protocol, "problem": sasl.problem}
            raise PydanticCustomError("sasl", "CLEARSPAN_KAFKA__SECURITY_PROTOCOL={protocol} {problem}", context)
        return sasl

    @field_validator("topics")
    @classmethod
    def _have_names(cls, topics: dict[str, TopicSettings]) -> dict[str, TopicSettings]:
        if not topics:
            raise PydanticCustomError("topics", "Input should contain at least one topic")
        for name in topics:
            checked_topic(name)
        return topics

    @field_validator("intake_topic", "otlp_topic", "logs_topic")
    @classmethod
    def _of_its_signal(cls, topic: str, info: ValidationInfo) -> str:
        configured: TopicSettings | None = info.data.get("topics", {}).get(topic)
        signal = Signal.LOGS if info.field_name == "logs_topic" else Signal.TRACES
        if configured is not None and configured.signal is not signal:
            sentence = "Input should be a topic whose signal is {signal}"
            raise PydanticCustomError("topic", sentence, {"signal": signal.value})
        return topic

    @field_validator("intake_topic", "otlp_topic", "logs_topic")
    @classmethod
    def _trusted(cls, topic: str, info: ValidationInfo) -> str:
        """The API names the project of a span that arrives over HTTP in the header of its record."""
        configured: TopicSettings | None = info.data.get("topics", {}).get(topic)
        if configured is not None and not configured.trust_project:
            sentence = (
                "Input should be a topic whose trust_project is not false: spans that arrive over HTTP would all"
                " belong to its project_id, whatever their key"
            )
            raise PydanticCustomError("topic", sentence)
        return topic

    @field_validator("dead_letter_topic", "stored_topic")
    @classmethod
    def _not_read(cls, topic: str, info: ValidationInfo) -> str:
        """A worker that reads its own output would dead-letter it, read that, and so on forever."""
        if topic in info.data.get("topics", {}):
            raise PydanticCustomError("topic", "Input should not be one of the topics that the worker reads")
        return topic
