"""What ``/status/freshness`` answers, as pydantic models."""

from __future__ import annotations

from pydantic import BaseModel, Field


class LastStored(BaseModel):
    """The last record with spans of this project that is queryable."""

    offset: int | None = Field(None, description="Only where all records are yours: it counts those of all projects.")
    recorded_at: str | None = Field(None, description="The record's own timestamp.")
    stored_at: str = Field(description="When it was known to be queryable.")


class PartitionFreshness(BaseModel):
    """One partition of one topic that is read."""

    topic: str
    partition: int
    is_behind: bool | None = Field(
        None, description="Whether Kafka holds records that are not queryable yet; only where all records are yours."
    )
    data_through: str | None = Field(
        None,
        description="What Kafka had taken by then is queryable; absent: not known. Only where all records are yours.",
    )
    last_stored: LastStored | None = Field(None, description="Of this project; absent while there is none.")
    produced_offset: int | None = Field(
        None, description="Of the last record in Kafka; only where all records are yours."
    )
    stored_offset: int | None = Field(None, description="Of the last record that is queryable; likewise.")
    behind_records: int | None = Field(None, description="Records between the two; likewise.")


class Freshness(BaseModel):
    """Up to where what was produced is queryable."""

    count: int
    data_through: str | None = Field(None, description="What Kafka had taken by then is queryable, in all partitions.")
    asked_at: str | None = Field(None, description="When Kafka was asked where its logs end.")
    reason: str | None = Field(None, description="Why data_through is absent, or older than it could be.")
    partitions: list[PartitionFreshness]
