"""The comment lines in which a DDL of the merged log carries its PolarDB-X form; MySQL ignores them.

    # POLARX_ORIGIN_SQL_ENCODE=BASE64                    only where the statement has line ends
    # POLARX_ORIGIN_SQL=create table t (a int) single
    # POLARX_TSO=705042465250482592016…                  the order key, 54 digits
    # POLARX_DDL_ID=0
    # POLARX_DDL_TYPES=CCI
    # POLARX_VARIABLES={"FOREIGN_KEY_CHECKS":"OFF"}
    CREATE TABLE t (a int)

Source: the text of DDL events in PolarDB-X's global binlog.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from snapshot_store.surrogates import is_text
from snapshot_store.tso import OrderKey

_PREFIX = "# POLARX_"
_ENCODE, _SQL, _TSO, _DDL_ID = "ORIGIN_SQL_ENCODE", "ORIGIN_SQL", "TSO", "DDL_ID"
_TYPES, _VARIABLES, _MODE = "DDL_TYPES", "VARIABLES", "DDL_ROUTE_MODE"
_NAMES = (_ENCODE, _SQL, _TSO, _DDL_ID, _TYPES, _VARIABLES, _MODE)


@dataclass(frozen=True, slots=True)
class PolarxComment:
    """The content of the lines: the statement for PolarDB-X, its order key, and the job that ran it (0: unknown)."""

    origin: str
    key: OrderKey
    ddl_id: int = 0
    types: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Return the lines, each with its line end."""
        # MySQL ends a comment at NUL too.
        encoded = any(c in self.origin for c in "\n\r\0") or not is_text(self.origin)
        lines = [(_ENCODE, "BASE64")] if encoded else []
        lines += [
            (_SQL, _encode(self.origin) if encoded else self.origin),
            (_TSO, self.key.text()),
            (_DDL_ID, str(self.ddl_id)),
        ]
        if self.types:
            lines.append((_TYPES, self.types))
        if self.variables:
            lines.append((_VARIABLES, json.dumps(dict(self.variables), sort_keys=True, separators=(",", ":"))))
        return "".join(f"{_PREFIX}{name}={value}\n" for name, value in lines)


def split_comment(text: str) -> tuple[PolarxComment | None, str]:
    """Split the text of a DDL event into its PolarDB-X comment, None if it has none, and the rest, which is for MySQL.

    Raises ValueError if the lines are present but cannot be parsed.
    """
    values: dict[str, str] = {}
    rest = text
    while rest.startswith(_PREFIX):
        line, _, following = rest.partition("\n")
        name, equals, value = line[len(_PREFIX) :].partition("=")
        if not equals or name not in _NAMES:
            break
        values[name] = value
        rest = following
    if _SQL not in values:
        return None, text
    origin = values[_SQL]
    if values.get(_ENCODE, "").upper() == "BASE64":
        try:
            origin = base64.b64decode(origin, validate=True).decode("utf-8", "surrogateescape")
        except binascii.Error as error:
            raise ValueError(f"{_PREFIX}{_SQL} is no base64: {error}") from None
    try:
        key = OrderKey.parse(values.get(_TSO, ""))
        variables = json.loads(values.get(_VARIABLES, "{}"))
        ddl_id = int(values.get(_DDL_ID, "0"))
    except ValueError as error:
        raise ValueError(f"the {_PREFIX}… lines of a DDL cannot be read: {error}") from None
    return PolarxComment(origin, key, ddl_id, values.get(_TYPES, ""), variables), rest


def _encode(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
