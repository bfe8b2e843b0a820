"""The settings of who may do what: how many keys a project has, and how much of its audit log is kept."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class AccessSettings(BaseModel):
    """Keys, and the audit log of what is done with them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    keys_max: int = Field(1_000, ge=1, le=100_000)
    """Keys of one project that are in force; a further one gets 409. As many that have ended are remembered."""
