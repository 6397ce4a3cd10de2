"""Which tables, events, rows and columns pass: the filters of TiCDC and DM in one engine.

The names below are the public API. Each is loaded on first use, as row expressions import DuckDB.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlog_merge.filters.block_allow import BlockAllowList
    from binlog_merge.filters.events import BinlogEventFilter, BinlogEventRule, EventFilter, EventRule
    from binlog_merge.filters.expressions import ExpressionFilter, ExpressionRule
    from binlog_merge.filters.tables import ColumnFilter, TableFilter

__all__ = [
    "BinlogEventFilter",
    "BinlogEventRule",
    "BlockAllowList",
    "ColumnFilter",
    "EventFilter",
    "EventRule",
    "ExpressionFilter",
    "ExpressionRule",
    "TableFilter",
]

_HOMES = {
    "BlockAllowList": "block_allow",
    **dict.fromkeys(("BinlogEventFilter", "BinlogEventRule", "EventFilter", "EventRule"), "events"),
    **dict.fromkeys(("ExpressionFilter", "ExpressionRule"), "expressions"),
    **dict.fromkeys(("ColumnFilter", "TableFilter"), "tables"),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"binlog_merge.filters.{home}"), name)
    globals()[name] = value
    return value
