"""Codecs, one file per encoding: from bytes to spans."""
