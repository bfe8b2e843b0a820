"""The routes of applications: those that every history has, and what is particular here (reference ``applications-api`` §4–§8)."""

from __future__ import annotations

from typing import Final

from query_api.registry.applications_flags import artifact_flags, asked_flags, snapshot
from query_api.registry.applications_models import ApplicationData
from query_api.registry.handlers import HistoryHandlers
from query_api.registry.history import History
from query_api.registry.names import APPLICATIONS
from query_api.saved.revision_handlers import ApplicationRevisions

HISTORY: Final = History(
    names=APPLICATIONS,
    data=ApplicationData,
    snapshot=snapshot,
    artifact_flags=artifact_flags,
    asked_flags=asked_flags,
)
HANDLERS: Final = HistoryHandlers(HISTORY, revisions=ApplicationRevisions)
