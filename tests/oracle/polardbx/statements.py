"""PolarDB-X's DDL as what comes out: the cluster's form in comment lines, then what MySQL executes.

Knows the statements of the simulator and the fixtures; others raise. Works on text by regular expressions, where the
product works on tokens.
"""

import json
import re
from dataclasses import dataclass

from tests.oracle.binlog import OracleError
from tests.oracle.order import Key, key_text
from tests.oracle.polardbx.messages import Message

_NAME = r"`(?:[^`]|``)*`"
_PARTITIONS = r"(?:\s*(?:DB|TB)?PARTITION BY \w+\s*\([^)]*\)(?: (?:DB|TB)?PARTITIONS \d+)?)+"
_CREATE = re.compile(rf"(CREATE TABLE .*?)({_PARTITIONS}| BROADCAST| SINGLE)?", re.IGNORECASE | re.DOTALL)
_CUTS = (
    (rf"^(ALTER TABLE {_NAME} ADD )GLOBAL (INDEX {_NAME} \([^)]*\)){_PARTITIONS}$", r"\1\2"),
    (r"^CREATE LOCAL INDEX", "CREATE INDEX"),
    (r"^(DROP TABLE .*) PURGE$", r"\1"),
    (r"^(CREATE DATABASE .*) MODE = '\w+'$", r"\1"),
)
_MODES = {"ONLY_FULL_GROUP_BY": 1 << 5, "STRICT_TRANS_TABLES": 1 << 21}


@dataclass(frozen=True)
class Statement:
    """A DDL that comes out: `mysql` is "" where it holds nothing for MySQL; `text` is all of the event's."""

    mysql: str
    text: str


def statement(message: Message, charset: str | None) -> Statement | None:
    """Return what comes out for a DDL marker; None for nothing."""
    visibility = message.values.get("VISIBILITY")
    if message.kind == "sync-point":
        return Statement("", _lines("CALL trigger_sync_point_trx()", message.key, {}))
    if visibility == 0:
        return None
    kind, ext = message.text("SQL_KIND"), message.ext
    if kind == "ALTER_TABLEGROUP" and not (ext.get("manuallyCreatedTableGroup") or ext.get("enableImplicitTableGroup")):
        return None
    original = ext.get("originalDdl") or message.text("DDL_SQL")
    if visibility == 2:
        return Statement("", _lines(original, message.key, ext))
    if kind not in ("CREATE_TABLE",) and original != message.text("DDL_SQL"):
        raise OracleError(f"{kind} with another original statement is not modelled")
    meta = json.loads(message.text("META_INFO") or "{}").get("logicTableMeta") or {}
    if (create := _CREATE.fullmatch(original)) is not None:
        mysql = _with_collation(create[1], meta.get("tableCollation"))
        whole = mysql + (create[2] or "")
    else:
        mysql = whole = _with_charset(original, charset)
    for pattern, replacement in _CUTS:
        mysql = re.sub(pattern, replacement, mysql)
    table = message.text("TABLE_NAME")
    mysql = mysql.replace(f"`{table}`", f"`{table.lower()}`", 1)  # as rows name it
    if re.search(r"(?i)\b(PARTITION BY|BROADCAST|GLOBAL|TABLEGROUP|LOCALITY|_drds_implicit_id_)\b", mysql):
        raise OracleError(f"not modelled: {mysql}")
    return Statement(mysql, _lines(whole, message.key, ext) + mysql)


def without_own_key(create: str) -> str:
    """Return a CREATE TABLE without the key that the cluster gives to tables without one."""
    lines = [line for line in create.split("\n") if "_drds_implicit_id_" not in line]
    text = "\n".join(lines)
    return re.sub(r",(\s*\n\))", r"\1", text)


def _with_collation(create: str, collation: str | None) -> str:
    """Write in what a CREATE TABLE leaves to the cluster's defaults."""
    if collation is None or "COLLATE" in create:
        return create
    told = f" DEFAULT COLLATE = {collation}"
    if "CHARSET" in create:
        return re.sub(r"(DEFAULT CHARSET=\w+)", rf"\1{told}", create, count=1)
    return f"{create} DEFAULT CHARACTER SET = {collation.split('_')[0]}{told}"


def _with_charset(sql: str, charset: str | None) -> str:
    """Write in what a CREATE DATABASE leaves to the cluster's defaults."""
    if sql.startswith("CREATE DATABASE") and charset is not None and "CHARACTER SET" not in sql:
        return re.sub(rf"({_NAME})", rf"\1 DEFAULT CHARACTER SET = {charset}", sql, count=1)
    return sql


def _lines(origin: str, key: Key, ext: dict[str, object]) -> str:
    variables = ext.get("polarxVariables")
    text = f"# POLARX_ORIGIN_SQL={origin.replace(chr(10), ' ')}\n# POLARX_TSO={key_text(key)}\n# POLARX_DDL_ID=0\n"
    if variables:
        text += f"# POLARX_VARIABLES={json.dumps(variables, separators=(',', ':'))}\n"
    return text


def sql_mode(message: Message) -> int:
    """Return the sql_mode that EXT names, else the marker's session's."""
    names = message.ext.get("sqlMode")
    if names is None:
        return message.session.sql_mode or 0
    return sum(_MODES[name] for name in str(names).split(","))
