"""Loads and checks the filter of a merge, before any input is read."""

from pathlib import Path
from typing import TYPE_CHECKING

from binlog_merge.errors import ConfigError

if TYPE_CHECKING:
    from binlog_merge.filters.filter import FilterSettings


def filter_settings(path: str | None) -> "FilterSettings | None":
    """Return the settings of a filter file, None if `path` is None.

    Raises ConfigError for settings that a merge cannot apply.
    """
    if path is None:
        return None
    from binlog_merge.filters.config import load_filter
    from binlog_merge.filters.filter import verify

    settings = load_filter(Path(path))
    if settings.ignore_start_ts:
        raise ConfigError(
            "ignore-txn-start-ts: the merge does not know when a transaction began",
            file=path,
            remedy="name commit TSOs in ignore-commit-tso",
        )
    if settings.column_selectors:
        raise ConfigError(
            "column-selectors: a merged binlog has whole rows", file=path, remedy="leave the selectors out"
        )
    verify(settings)
    return settings
