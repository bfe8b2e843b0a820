"""Peers: systems that also store spans, built and measured in the same run as Clearspan."""
