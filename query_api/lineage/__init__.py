"""Artifact, variant, revision: the history of what applications, saved queries and environments are made of."""
