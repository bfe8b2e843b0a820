"""The routes of applications: those that every history has, and what is particular here (reference ``applications-api`` §4–§8)."""

from __future__ import annotations

from typing import Final

from query_api.applications.flags import artifact_flags, asked_flags, snapshot
from query_api.applications.models import ApplicationData
from query_api.applications.revision_handlers import ApplicationRevisions
from query_api.lineage.handlers import HistoryHandlers
from query_api.lineage.history import History
from query_api.lineage.names import APPLICATIONS

HISTORY: Final = History(
    names=APPLICATIONS,
    data=ApplicationData,
    snapshot=snapshot,
    artifact_flags=artifact_flags,
    asked_flags=asked_flags,
)
HANDLERS: Final = HistoryHandlers(HISTORY, revisions=ApplicationRevisions)
