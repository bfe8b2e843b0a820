"""Projects: the fence between tenants. Every span, key and query belongs to exactly one; users are whom changes are put down to."""

from __future__ import annotations

from typing import Final
from uuid import UUID

DEFAULT_PROJECT_ID: Final = UUID("00000000-0000-7000-8000-000000000001")
"""Where spans go that name no project, and what every request sees while authentication is off."""

DEFAULT_USER_ID: Final = UUID("00000000-0000-7000-8000-000000000002")
"""Who it was while authentication is off, and whose keys are that name nobody; ``0003_users.sql`` inserts it."""
