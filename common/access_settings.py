"""The settings of who may do what: how many keys a project has, and how much of its audit log is kept."""

from __future__ import annotations

from pydantic import Field

from common.setting_types import Group


class AccessSettings(Group):
    """Keys, and the audit log of what is done with them."""

    keys_max: int = Field(1_000, ge=1, le=100_000)
    """Keys of one project that are in force; a further one gets 409. As many that have ended are remembered."""
    audit_writes_max: int = Field(100_000, ge=100, le=100_000_000)
    """Changes of one project that the audit log keeps; the oldest go first."""
    audit_refusals_max: int = Field(10_000, ge=100, le=100_000_000)
    """Entries of refused requests that the audit log keeps for one project, and for requests without a valid key."""
    audit_days_max: float = Field(400.0, gt=0, le=36_500)
    """Age at which entries are deleted from the audit log, in days."""
