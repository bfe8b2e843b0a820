"""The default project and user. A project isolates a tenant: every span, key and query belongs to exactly one."""

from __future__ import annotations

from typing import Final
from uuid import UUID

DEFAULT_PROJECT_ID: Final = UUID("00000000-0000-7000-8000-000000000001")
"""The project of spans without a project, and of every request while authentication is off."""

DEFAULT_USER_ID: Final = UUID("00000000-0000-7000-8000-000000000002")
"""The user while authentication is off, and of keys without a user; the baseline migration inserts it."""
