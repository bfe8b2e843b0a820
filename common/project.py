"""Projects: the fence between tenants. Every span, key and query belongs to exactly one."""

from __future__ import annotations

from typing import Final
from uuid import UUID

DEFAULT_PROJECT_ID: Final = UUID("00000000-0000-7000-8000-000000000001")
"""Where spans go that name no project, and what every request sees while authentication is off."""
