"""What is spliced into a server's binlog: MySQL's own reader takes it, and nothing else has changed."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.merge_e2e.cases import case_named
from tests.merge_e2e.editing import GTIDS, QUERY, Log
from tests.mysql_server import mysqlbinlog
from tests.oracle.binlog import packed, parse_query, read_file
from tests.polardbx.splice import CONSENSUS, GCN, PREVIOUS_CONSENSUS, SEQUENCE, Dialect, Stamp, gtrid_of, splice

OWN = (SEQUENCE, CONSENSUS, PREVIOUS_CONSENSUS, GCN)
DIALECTS = (
    Dialect("gcn"),
    Dialect("gcn", behind_gtid=True, types=128),
    Dialect("gcn", branch_count=True, consensus=True, version="8.0.32-X-Cluster-8.4.20"),
    Dialect("query"),
    Dialect("sequence", version="5.7.14-AliSQL-X-Cluster"),
)
FILES = ("seed-add-column/nodes/dn-1/binlog.000001", "rotation/nodes/dn-2/binlog.000005")
each = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: f"{d.name}-{DIALECTS.index(d)}")
of_each_file = pytest.mark.parametrize("name", FILES)


def _spliced(name: str, dialect: Dialect) -> tuple[Log, Log, dict[bytes, Stamp]]:
    plain = Log.load(case_named("") / name)
    gtrids = dict.fromkeys(gtrid_of(e.text) for e in plain.events if e.type == QUERY and e.text.startswith("XA "))
    stamps = {gtrid: Stamp(7507804164986040321 + i, 7507804164986040000 + i, (3, 2)) for i, gtrid in enumerate(gtrids)}
    return plain, splice(plain, stamps, dialect), stamps


@each
@of_each_file
def test_only_carriers_are_added(name: str, dialect: Dialect) -> None:
    plain, spliced, _ = _spliced(name, dialect)
    kept = [e for e in spliced.events if e.type not in OWN]
    assert [(e.type, e.timestamp, e.server_id, e.flags) for e in kept] == [
        (e.type, e.timestamp, e.server_id, e.flags) for e in plain.events
    ]
    same = [(a, b) for a, b in zip(plain.events, kept, strict=True) if a.type not in (*GTIDS, 15)]
    assert all(a.body == b.body or (a.type == QUERY and a.text == b.text) for a, b in same)


@each
@of_each_file
def test_every_commit_carries_its_tso(name: str, dialect: Dialect, tmp_path: Path) -> None:
    _, spliced, stamps = _spliced(name, dialect)
    path = tmp_path / "binlog.000001"
    spliced.save(path)
    last, told = None, {}
    for event in read_file(path)[1]:  # verifies positions of nothing, but every checksum
        if (event.type == GCN and event.body[0] & 4) or (event.type == SEQUENCE and event.body[0] == 2):
            last = int.from_bytes(event.body[1:9], "little")
        elif event.type == QUERY:
            query = parse_query(event)
            if query.text.startswith("XA COMMIT"):
                at = 13 + int.from_bytes(event.body[11:13], "little") - 9
                if dialect.name == "query":
                    assert event.body[at] == 200
                    last = int.from_bytes(event.body[at + 1 : at + 9], "little")
                told[gtrid_of(query.text)] = last
            last = None
    assert told and told == {gtrid: stamps[gtrid].commit for gtrid in told}


@each
@of_each_file
def test_positions_and_transaction_lengths_agree(name: str, dialect: Dialect, tmp_path: Path) -> None:
    _, spliced, _ = _spliced(name, dialect)
    path, data = tmp_path / "binlog.000001", spliced.pack()
    path.write_bytes(data)
    events = read_file(path)[1]
    for event in events:
        assert int.from_bytes(data[event.start + 13 : event.start + 17], "little") == event.end
    ends = {e.end for e in events}
    starts = [e.start for e in events if e.type in (*GTIDS, CONSENSUS, GCN, 3, 4)] + [len(data)]
    for event, following in pairwise(events):
        if event.type in GTIDS[:2]:
            length, _ = packed(event.body, 42 + (14 if event.body[48] & 0x80 else 7))
            assert event.start + length in ends
            inside = following.end if following.type == GCN else event.end
            assert event.start + length == min(s for s in starts if s >= inside)


@pytest.mark.mysql
@each
@of_each_file
def test_mysqlbinlog_reads_it(name: str, dialect: Dialect, tmp_path: Path) -> None:
    _, spliced, _ = _spliced(name, dialect)
    path = tmp_path / "binlog.000001"
    spliced.save(path)
    printed = mysqlbinlog([path], "--verify-binlog-checksum").decode()
    commits = [e for e in spliced.events if e.type == QUERY and e.text.startswith("XA COMMIT")]
    assert printed.count("\nXA COMMIT X'") == len(commits) > 0
    own = [e for e in spliced.events if e.type in OWN]
    assert printed.count("# Unrecognized ignorable event") == len(own)
    if dialect.version is not None:
        assert dialect.version in printed


@pytest.mark.mysql
def test_mysqlbinlog_stops_where_the_file_head_does_not_describe_the_events(tmp_path: Path) -> None:
    _, spliced, _ = _spliced(FILES[0], Dialect("gcn", types=None))
    spliced.save(tmp_path / "binlog.000001")
    with pytest.raises(RuntimeError, match="invalid event"):
        mysqlbinlog([tmp_path / "binlog.000001"], "--force-read")
