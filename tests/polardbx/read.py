"""A merged binlog read back as what `truth` says of it; the frame of its files is checked on the way."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.oracle import binlog
from tests.polardbx.truth import Expected
from tests.soak import decode

COMMENT = "# POLARX_"
OURS = 9001  # the server id of merged binlogs where nothing else is wanted


def read_merged(files: Mapping[str, bytes], scratch: Path) -> list[Expected]:
    """Return the transactions of merged files. A DDL's key is the POLARX_TSO it tells, else ""."""
    found: list[Expected] = []
    names = sorted(files)
    for name in names:
        path = scratch / "read-back"
        path.write_bytes(files[name])
        _, events = binlog.read_file(path)
        decode.check_frame(files[name], events, len(found))
        body = events[2:]
        if name != names[-1]:
            assert body.pop().type == binlog.ROTATE
        servers = {e.start: int.from_bytes(files[name][e.start + 5 : e.start + 9], "little") for e in events}
        found += _transactions(body, servers)
    return found


def comparable(entry: Expected, ordered: bool) -> Expected:
    """Return an entry without what the two sides need not agree on: a DDL's text, the order of rows if so."""
    if entry.sql is not None:
        words = [word for word in entry.sql.upper().split() if word not in ("LOCAL", "GLOBAL")]
        return replace(entry, sql="private" if entry.private else " ".join(words[:2]))
    rows = entry.rows if ordered else tuple(sorted(entry.rows, key=repr))
    return replace(entry, rows=rows)


def _transactions(events: list[binlog.Event], servers: Mapping[int, int]) -> list[Expected]:
    found, at = [], 0
    while at < len(events):
        assert events[at].type in (binlog.GTID, binlog.ANONYMOUS_GTID)
        text = binlog.parse_query(events[at + 1]).text
        at += 2
        if text != "BEGIN":
            found.append(_ddl(text, servers[events[at - 1].start]))
            continue
        end = next(i for i in range(at, len(events)) if events[i].type == binlog.XID)
        queries = [e for e in events[at:end] if e.type == binlog.QUERY]
        if queries:  # comments alone: nothing that MySQL executes
            found.append(_ddl(binlog.parse_query(queries[0]).text, servers[queries[0].start]))
            assert found[-1].private and len(queries) == 1
            assert all(e.type in (binlog.QUERY, binlog.ROWS_QUERY) for e in events[at:end])
            at = end + 1
            continue
        assert events[at].type == binlog.ROWS_QUERY
        cts, _, note = events[at].body[1:].decode().split("# CTS::")[1].partition("\n")
        assert note in ("", "# TSO HEARTBEAT TXN")
        rows = [e for e in events[at + 1 : end] if e.type != binlog.ROWS_QUERY]
        (server,) = {servers[e.start] for e in events[at - 2 : end + 1]}
        key, _, tail = cts.partition("::")
        assert tail in ("", "ARCHIVE")
        rows_of = tuple(decode.rows_of(rows))
        found.append(
            Expected(key, rows_of, server=None if server == OURS else server, archive=bool(tail), beat=bool(note))
        )
        at = end + 1
    return found


def _ddl(text: str, server: int) -> Expected:
    lines = text.split("\n")
    notes = [line for line in lines if line.startswith(COMMENT)]
    sql = "\n".join(line for line in lines if not line.startswith(COMMENT)).strip()
    key = next((n.partition("=")[2] for n in notes if n.startswith("# POLARX_TSO=")), "")
    return Expected(key, (), sql, not sql, None if server == OURS else server)
