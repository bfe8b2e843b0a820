"""All routes of a kind of history, layer by layer. A kind makes one and puts its methods into its table of routes."""

from __future__ import annotations

from query_api.lineage.artifact_handlers import ArtifactHandlers
from query_api.lineage.history import History
from query_api.lineage.revision_handlers import RevisionHandlers
from query_api.lineage.simple_handlers import SimpleHandlers
from query_api.lineage.variant_handlers import VariantHandlers


class HistoryHandlers:
    """The handlers of every layer of one kind."""

    def __init__(self, history: History) -> None:
        self.artifacts = ArtifactHandlers(history)
        self.variants = VariantHandlers(history)
        self.revisions = RevisionHandlers(history)
        self.simple = SimpleHandlers(history)
