"""The settings of subscriptions: what one may use, how long a target is retried, and what webhooks may reach."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, IPvAnyNetwork

from common.limits import KIB, MIB
from common.setting_types import Group


class DeliverySettings(Group):
    """Subscriptions, and the processes that deliver them."""

    private_addresses: Literal["on", "off"] = "off"
    """on: webhooks and OTLP endpoints may be at loopback, link-local and private addresses."""
    refused_networks: list[IPvAnyNetwork] = Field(default_factory=list)
    """Networks in which no target may be, Kafka included, even if private addresses are allowed: `["192.0.2.0/24"]`."""
    subscriptions_max: int = Field(100, ge=0, le=10_000)
    """Subscriptions of one project; a further one gets 409."""
    batch_spans_max: int = Field(1_000, ge=1, le=10_000)
    """Spans of one batch."""
    batch_bytes_max: int = Field(2 * MIB, ge=KIB, le=64 * MIB)
    """Spans of one batch, in bytes; a larger span is a batch of its own."""
    batches_max: int = Field(64, ge=1, le=10_000)
    """Batches that one process holds in memory at the same time."""
    timeout_s: float = Field(30.0, gt=0, le=600)
    """Time in which a target must acknowledge a batch, in seconds."""
    retry_delay_max_s: float = Field(60.0, gt=0, le=3_600)
    """Longest pause between two tries of a batch, in seconds, unless the target asks for a longer one."""
    retry_for_s: float = Field(86_400.0, gt=0, le=2_592_000)
    """How long a batch is retried before its subscription is paused, in seconds."""
    lease_s: float = Field(10.0, ge=1, le=300)
    """A process that does not renew its leases for this long loses its jobs to another one, in seconds."""
    parquet_directory: Path | None = None
    """The directory in which each project has a folder for its Parquet files; by default there are none."""
    s3_buckets: list[str] = Field(default_factory=list)
    """The S3 buckets in which each project has a prefix for its Parquet files, with the credentials of the process."""
    s3_endpoint: str | None = None
    """The address of a server that speaks S3; by default that of AWS."""
    s3_region: str | None = None
    """The region of the buckets; by default that of the environment."""
    alerts_max: int = Field(100, ge=0, le=10_000)
    """Alerts of one project; a further one gets 409."""
    alert_every_min_s: int = Field(10, ge=1, le=3_600)
    """The shortest time between two evaluations of an alert, in seconds."""
