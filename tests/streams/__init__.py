"""Streams: logs that are derived from a merged log."""
