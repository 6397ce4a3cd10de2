"""Steps run on real MySQL servers, one a node, whose binlogs then become data nodes'."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from tests.merge_e2e.editing import Log
from tests.mysql_server import MySqlServer
from tests.polardbx.splice import Dialect, Stamp, splice
from tests.polardbx.steps import Commit, Ddl, Local, OnePhase, Prepare, Rollback, Rotate, Step, Write, Xid
from tests.simulator.columns import Column, Value


def play(steps: Sequence[Step], servers: Mapping[str, MySqlServer]) -> None:
    """Run every step on its node's server; prepared branches leave their session, so that one serves them all."""
    sessions = {name: server.connect() for name, server in servers.items()}
    for step in steps:
        for sql in statements(step):
            with sessions[step.node].cursor() as cursor:
                cursor.execute(sql)
    for session in sessions.values():
        session.close()


def spliced(
    server: MySqlServer, stamps: Mapping[bytes, Stamp], dialect: Dialect, skip_files: int = 0
) -> dict[str, bytes]:
    """Return the binlog files of a server as a data node of this dialect writes them."""
    files = server.binlog_files()[skip_files:]
    return {f.name: splice(Log.load(f), stamps, dialect).pack() for f in files}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def statements(step: Step) -> list[str]:
    """Return the SQL of a step."""
    match step:
        case Prepare(_, xid, writes):
            return [*_branch(xid, writes), f"XA PREPARE {xid.text}"]
        case OnePhase(_, xid, writes):
            return [*_branch(xid, writes), f"XA COMMIT {xid.text} ONE PHASE"]
        case Local(_, writes, _):
            return ["BEGIN", *map(statement, writes), "COMMIT"]
        case Commit(_, xid):
            return [f"XA COMMIT {xid.text}"]
        case Rollback(_, xid):
            return [f"XA ROLLBACK {xid.text}"]
        case Ddl(_, schema, sql):
            return [f"USE `{schema}`", sql] if schema else [sql]
        case Rotate():
            return ["FLUSH BINARY LOGS"]
        case _:
            raise TypeError(step)


def statement(write: Write) -> str:
    """Return the statement that changes one row."""
    name = f"`{write.schema}`.`{write.name}`"
    key = write.table.columns[0]
    if write.after is None:
        assert write.before is not None
        return f"{write.hint}DELETE FROM {name} WHERE `{key.name}` = {literal(key, write.before[key.name])}"
    values = [f"`{c.name}` = {literal(c, write.after[c.name])}" for c in write.table.columns]
    if write.before is None:
        return f"{write.hint}INSERT INTO {name} SET {', '.join(values)}"
    return (
        f"{write.hint}UPDATE {name} SET {', '.join(values)} WHERE `{key.name}` = {literal(key, write.before[key.name])}"
    )


def literal(column: Column, value: Value) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return f"_utf8mb4 X'{value.encode().hex()}'"
    date = "-".join(f"{part:02d}" for part in value[:3])
    if column.type == "date":
        return f"'{date}'"
    return f"'{date} {value[3]:02d}:{value[4]:02d}:{value[5]:02d}.{value[6]:06d}'"


def _branch(xid: Xid, writes: Sequence[Write]) -> list[str]:
    return [f"XA START {xid.text}", *map(statement, writes), f"XA END {xid.text}"]
