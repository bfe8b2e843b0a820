"""Workflows: what applications are called by clients that know no difference."""
