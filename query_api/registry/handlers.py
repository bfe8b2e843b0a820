"""All routes of a kind of history, layer by layer. A kind makes one and puts its methods into its table of routes."""

from __future__ import annotations

from query_api.registry.artifact_handlers import ArtifactHandlers
from query_api.registry.history import History
from query_api.registry.revision_handlers import RevisionHandlers
from query_api.registry.simple_handlers import SimpleHandlers
from query_api.registry.variant_handlers import VariantHandlers


class HistoryHandlers:
    """The handlers of every layer of one kind. A layer that does more for a kind is a subclass, given here."""

    def __init__(
        self,
        history: History,
        *,
        artifacts: type[ArtifactHandlers] = ArtifactHandlers,
        variants: type[VariantHandlers] = VariantHandlers,
        revisions: type[RevisionHandlers] = RevisionHandlers,
    ) -> None:
        self.artifacts = artifacts(history)
        self.variants = variants(history)
        self.revisions = revisions(history)
        self.simple = SimpleHandlers(history)
