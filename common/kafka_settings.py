"""The settings of Kafka: the broker, the topics and the consumer group."""

from __future__ import annotations

from enum import StrEnum
from typing import Self
from uuid import UUID

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from common.limits import MIB
from common.setting_types import Group, Name, Servers, Topic, checked_topic


class Encoding(StrEnum):
    """How the value of a record is encoded unless its header ``content-type`` says otherwise (contract §4)."""

    OTLP_PROTO = "otlp_proto"
    OTLP_JSON = "otlp_json"
    SPAN_JSON = "span_json"


class TopicSettings(Group):
    """One topic that the worker reads."""

    encoding: Encoding
    project_id: UUID | None = None
    trust_project: bool = True

    @model_validator(mode="after")
    def _have_a_project(self) -> Self:
        if not self.trust_project and self.project_id is None:
            raise PydanticCustomError("topic", "Input should have a project_id if trust_project is false")
        return self


def _default_topics() -> dict[str, TopicSettings]:
    return {
        "otlp_spans": TopicSettings(encoding=Encoding.OTLP_PROTO),
        "otlp_spans_json": TopicSettings(encoding=Encoding.OTLP_JSON),
        "spans": TopicSettings(encoding=Encoding.SPAN_JSON),
    }


class KafkaSettings(Group):
    """The broker, the topics and the consumer group."""

    bootstrap: Servers = "127.0.0.1:9092"
    """Bootstrap servers, comma separated."""
    group: Name = "clearspan"
    """Consumer group of the ingest worker."""
    topics: dict[str, TopicSettings] = Field(default_factory=_default_topics)
    """Topics that the worker reads: a JSON object of name → {encoding, project_id?, trust_project?}. With
    `"trust_project": false` all its records belong to `project_id`, whatever they say."""
    intake_topic: Topic = Field("spans", validate_default=True)
    """Topic for spans that arrive over HTTP as JSON span objects; one of the topics that the worker reads."""
    otlp_topic: Topic = Field("otlp_spans", validate_default=True)
    """Topic for spans that arrive over HTTP as OTLP; one of the topics that the worker reads."""
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

    @field_validator("topics")
    @classmethod
    def _have_names(cls, topics: dict[str, TopicSettings]) -> dict[str, TopicSettings]:
        if not topics:
            raise PydanticCustomError("topics", "Input should contain at least one topic")
        for name in topics:
            checked_topic(name)
        return topics

    @field_validator("intake_topic", "otlp_topic")
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
