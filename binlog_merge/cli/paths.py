"""Paths on the command line: local ones, and what is said where a URI cannot stand."""

from pathlib import Path


def local_path(given: str | Path) -> Path:
    """Return the local path that an argument names, also as file:///…. Raises ConfigError for any other URI."""
    if isinstance(given, Path):
        return given  # a default
    from binlog_merge.config.uri import local_or_refused

    return Path(local_or_refused(given))
