"""Attributes of tables, columns and indexes: what a later clause makes of those that are there, and their SQL."""

from snapshot_store.model import Attributes

_NOTHING = frozenset({"", "''"})
_COUNTS = frozenset(
    {"AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "DELAY_KEY_WRITE", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS"}
)
_DEFAULTS = {
    **dict.fromkeys(("COMPRESSION", "CONNECTION", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"), "''"),
    "ENCRYPTION": "'N'",
    "INSERT_METHOD": "NO",
    "SECONDARY_ENGINE": "NULL",
    "UNION": "()",
}
"""Values that take an option away; of others it is DEFAULT, of counts 0."""
_SINCE = {
    "AUTOEXTEND_SIZE": 80023,
    "COLUMN_FORMAT": 50606,
    "ENCRYPTION": 80016,
    "ENGINE_ATTRIBUTE": 80021,
    "NOT SECONDARY": 80013,
    "SECONDARY_ENGINE": 80013,
    "SECONDARY_ENGINE_ATTRIBUTE": 80021,
    "STORAGE": 50606,
    "WITH PARSER": 50100,
}
"""The version that knows an attribute; for others it is a comment, as in SHOW CREATE TABLE."""
_APART = frozenset({"COLUMN_FORMAT", "COMMENT", "STORAGE", "USING", "WITH PARSER"})
"""Names that no = follows in definitions of columns and indexes."""


def with_attributes(known: Attributes, new: Attributes) -> Attributes:
    """Return attributes after others are written behind them; a value that means the default takes one away."""
    found = {**dict(known), **dict(new)}
    return tuple((name, value) for name, value in found.items() if not _is_default(name, value))


def default_of(name: str) -> str:
    """Return the value that means the default of a table's option, as ALTER TABLE takes it."""
    return "0" if name in _COUNTS else _DEFAULTS.get(name, "DEFAULT")


def _is_default(name: str, value: str) -> bool:
    if name in _COUNTS:
        return value in ("0", "DEFAULT")
    return value.upper() == "DEFAULT" or (value in _NOTHING and name != "NOT SECONDARY")


def attributes_sql(attributes: Attributes) -> list[str]:
    """Return each attribute as a clause of a definition."""
    return [_in_comment(name, _clause(name, value)) for name, value in attributes]


def _clause(name: str, value: str) -> str:
    if not value:
        return name
    return f"{name} {value}" if name in _APART else f"{name}={value}"


def _in_comment(name: str, clause: str) -> str:
    since = _SINCE.get(name)
    return clause if since is None else f"/*!{since} {clause} */"
