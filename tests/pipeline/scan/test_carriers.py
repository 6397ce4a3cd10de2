"""Where a data node carries commit TSOs, and what its transaction ids mean to the order; logs made by hand."""

import struct
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.header import walk
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.files.directory import discover
from binlog_merge.files.manifest import ManifestState
from binlog_merge.pipeline.scan.carriers import Detection
from binlog_merge.pipeline.scan.inputs import detect_carrier, node_inputs
from snapshot_store.tso import OrderKey
from tests.merge_e2e.local import merge
from tests.pipeline.scan.scanning import scanned, tasks_of
from tests.polardbx.logs import Log, end, flags, gcn, keys, local, logged, rows, sequence, start, text
from tests.simulator import wire
from tests.simulator.wire import Event


def _only(log: Log, folder: Path, **commit_tso: str) -> list[OrderKey]:
    """Return the keys of a log, which must be the same however its file is cut."""
    config = log.save(folder, **commit_tso)
    whole = keys(config, folder)
    for seed in range(12):
        assert keys(config, folder, seed, 12) == whole
    return [key for key, _ in whole]


def _two_phases(log: Log, transaction: int, commit: Event, *, behind: bool = False) -> None:
    """Write a branch and its commit, whose carrier stands in front of its GTID event or behind it."""
    snapshot = [gcn(5, 3)]
    log.group(*(snapshot if behind else []), *start(transaction), before=[] if behind else snapshot)
    log.group(*([commit] if behind else []), end(transaction), before=[] if behind else [commit])


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("gtids", [False, True])
def test_gcn_events(behind: bool, gtids: bool, tmp_path: Path) -> None:
    log = Log(gtids)
    log.group(*local(), before=[gcn(4, 1)])
    _two_phases(log, 0xA, gcn(100, 0x0D), behind=behind)
    log.group(*local(), before=[gcn(101, 1)])
    config = log.save(tmp_path)
    assert [key for key, _ in keys(config, tmp_path)] == [(0, 0, 1, 1), (100, 0xA, 0, 0), (100, 0xA, 1, 1)]
    if gtids:
        assert _only(log, tmp_path) == [(0, 0, 1, 1), (100, 0xA, 0, 0), (100, 0xA, 1, 1)]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("carrier", "tso"),
    [
        (gcn(100, 5), 100),
        (Event(105, bytes([0x25]) + struct.pack("<QHH", 100, 3, 1)), 100),  # with the numbers of branches
        (gcn(100, 1), None),  # the node's own sequence, not given from outside
        (gcn(100, 3), None),
        (gcn(100, 0x15), None),  # a proposal
        (gcn(0, 0), None),  # a byte alone
        (gcn(2**64 - 1, 5), None),  # what stands for none
        (sequence(100, 2), 100),
        (sequence(100, 1), None),
        (sequence(100, 3), None),
    ],
)
def test_which_events_carry_a_commit_tso(carrier: Event, tso: int | None, tmp_path: Path) -> None:
    log = Log()
    _two_phases(log, 0xB, carrier, behind=carrier.type == 80)
    assert _only(log, tmp_path) == [(0, 0, 1, 1) if tso is None else (tso, 0xB, 0, 0)]


@pytest.mark.parametrize(
    "status",
    [
        b"\xc8" + struct.pack("<Q", 77),
        b"\xc9" + struct.pack("<Q", 5) + b"\xc8" + struct.pack("<Q", 77),
        b"\xc8" + struct.pack("<Q", 77) + b"\xc9" + struct.pack("<Q", 5),
        b"\xc8" + struct.pack("<Q", 77) + b"\x10\1\x12\xff\0",
        b"\x0b\3abc\2de" + b"\x06\3std" + b"\xc8" + struct.pack("<Q", 77),
        b"\xf0what is this" + b"\xc8" + struct.pack("<Q", 77),  # behind a variable that nobody knows
        b"\xf0what is this" + b"\xc8" + struct.pack("<Q", 77) + b"\xc9" + struct.pack("<Q", 5),
    ],
)
def test_a_status_variable_of_xa_commit(status: bytes, tmp_path: Path) -> None:
    log = Log()
    log.group(*start(0xC))
    log.group(end(0xC, status=status))
    assert _only(log, tmp_path) == [(77, 0xC, 0, 0)]


def test_a_commit_tso_is_its_own_groups_alone(tmp_path: Path) -> None:
    log = Log()
    log.group(*start(1))
    log.group(*start(2))
    log.group(wire.query("CREATE TABLE d.u (a int)"), before=[gcn(50, 5)])
    log.group(end(1), before=[gcn(60, 1)])
    log.group(*start(3), before=[gcn(70, 5)])
    log.group(end(3, "ROLLBACK"), before=[gcn(80, 5)])
    log.group(end(2))
    # Neither commit has a TSO: both stand behind the DDL, which took the first place.
    assert _only(log, tmp_path) == [(0, 0, 2, 1), (0, 0, 3, 1)]


@pytest.mark.parametrize(("use", "wanted"), [("inherit", (100, 1, 1, 1)), ("use", None)])
def test_one_phase_and_local_transactions_drop_their_tso(
    use: str, wanted: tuple[int, int, int, int] | None, tmp_path: Path
) -> None:
    for events in (start(2, one_phase=True), local()):
        log = Log()
        _two_phases(log, 1, gcn(100, 5))
        log.group(*events, before=[gcn(150, 5)])
        first, second = _only(log, tmp_path, **{"local-tso": use})
        assert first == (100, 1, 0, 0)
        assert second == wanted or (use == "use" and (second.commit_tso, second.seq, second.node_seq) == (150, 0, 1))


def test_share_read_view_branches_of_a_group(tmp_path: Path) -> None:
    log = Log()
    for view in range(3):
        log.group(*start(1, group=f"D_GROUP@{view:04d}"))
    for view in (2, 0, 1):
        log.group(end(1, group=f"D_GROUP@{view:04d}"), before=[gcn(9, 5)])
    assert _only(log, tmp_path) == [(9, 1, 0, 0)] * 3


@pytest.mark.parametrize(
    ("group", "format_id", "comes_out"),
    [("D_GROUP", 2, False), ("D_GROUP", 4, False), ("__CDC___SINGLE_GROUP", 1, False), ("D_GROUP", 3, True)],
)
def test_transactions_that_are_no_readers_business(group: str, format_id: int, comes_out: bool, tmp_path: Path) -> None:
    log = Log()
    log.group(*start(1, group=group, format_id=format_id))
    log.group(end(1, group=group, format_id=format_id), before=[gcn(90, 5)])
    log.group(*start(2, one_phase=True, group=group, format_id=format_id))
    log.group(*start(3, group=group, format_id=format_id))
    log.group(end(3, "ROLLBACK", group, format_id))
    log.group(*local("u"))
    # An ignored transaction takes no place, and nothing follows it.
    taken = [(90, 1, 0, 0), (90, 1, 1, 1), (90, 1, 2, 1)]
    assert _only(log, tmp_path) == (taken if comes_out else [(0, 0, 1, 1)])
    assert flags(log.save(tmp_path), tmp_path) == ([128] if format_id == 3 else [])


def test_a_recovery_task_is_told_by_its_name(tmp_path: Path) -> None:
    xid = f"X'{b'POLARDB-X-RECOVER-TASK@1'.hex()}',X'',2"
    prepare = Event(wire.XA_PREPARE, struct.pack("<BIII", 0, 2, 1, 0) + b"x")
    log = Log()
    log.group(wire.query(f"XA START {xid}"), wire.query(f"XA END {xid}"), prepare)
    log.group(wire.query(f"XA COMMIT {xid}"))
    assert _only(log, tmp_path) == []


def test_a_format_that_nobody_knows_stops_the_scan(tmp_path: Path) -> None:
    log = Log()
    log.group(*local())
    at = log.group(*start(1, format_id=5))
    config = log.save(tmp_path)
    node = scanned(config, tasks_of(config, "polardbx", tmp_path)["dn-1"])
    assert isinstance(node.error, MergeError) and node.error.code == "unsupported-input"
    assert node.error.position is not None and node.error.position > at
    assert "format id" in node.error.message


@pytest.mark.parametrize("body", [b"", b"\5", b"\5\1\2\3", b"\1\1\2\3\4\5\6\7"])
def test_a_carrier_that_is_cut_off(body: bytes, tmp_path: Path) -> None:
    log = Log()
    log.group(*local(), before=[Event(105, body)])
    config = log.save(tmp_path)
    node = scanned(config, tasks_of(config, "polardbx", tmp_path)["dn-1"])
    assert node.error is not None and node.error.code == "checksum-mismatch"


def test_the_consensus_layers_events_are_passed_over(tmp_path: Path) -> None:
    log = Log()
    log.write(Event(102, struct.pack("<Q", 1)))
    for transaction in (1, 2):
        log.write(Event(101, bytes(36)))
        log.group(*start(transaction), before=[gcn(1, 1)])
        log.write(Event(101, bytes(36), 0x80))
        log.group(end(transaction), before=[gcn(transaction, 5)])
    log.write(Event(104, b""))
    assert _only(log, tmp_path) == [(1, 1, 0, 0), (2, 2, 0, 0)]


@pytest.mark.parametrize("shape", ["new", "old"])
def test_the_transaction_log_of_old(shape: str, tmp_path: Path) -> None:
    log = Log()
    log.group(*start(0xA, group="A"))
    log.group(*start(0xA, group="B"))
    log.group(wire.query("BEGIN"), *logged(0xA, 500, shape), wire.xid(1))  # nothing but the log: it takes no place
    log.group(*local())
    log.group(end(0xA, group="A"))
    log.group(end(0xA, group="B"))
    log.group(wire.query("BEGIN"), *logged(0xB, 600, shape), *rows(), wire.xid(1))  # its own branch
    log.group(wire.query("BEGIN"), *logged(0xC, None, shape), *rows(), wire.xid(1))  # of a kind without a TSO
    assert _only(log, tmp_path) == [
        (500, 0xA, 0, 0),
        (500, 0xA, 0, 0),
        (500, 0xA, 1, 1),
        (600, 0xB, 0, 0),
        (600, 0xB, 1, 1),
    ]


def test_what_the_transaction_log_says_counts_on_every_node(tmp_path: Path) -> None:
    first, second = Log(), Log(server=2)
    for log in (first, second):
        log.group(*start(0xA, group="A"))
    first.group(wire.query("BEGIN"), *logged(0xA, 7_507_804_160_000_000_000, "new"), wire.xid(1))
    first.group(end(0xA, group="A"))
    second.group(end(0xA, group="A"))
    config = first.save(tmp_path)
    second.save(tmp_path / "other")
    values = yaml.safe_load(config.read_text())
    values["nodes"].append({"source-id": "dn-2", "files": "other/dn-1/binlog.*"})
    values["base"] = {"logical": "base.sql"}
    (tmp_path / "base.sql").write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a bigint);")
    config.write_text(yaml.safe_dump(values))
    result = merge(config, tmp_path / "out")
    assert (result.transactions, result.branches, result.warnings) == (1, 2, ())


def test_tables_of_the_transaction_machinery_never_come_out(tmp_path: Path) -> None:
    log = Log()
    log.group(wire.query("BEGIN"), *rows("__drds_redo_log"), wire.xid(1))
    log.group(wire.query("BEGIN"), *rows("polarx_global_trx_log"), *rows(), wire.xid(1))
    assert _only(log, tmp_path) == [(0, 0, 2, 1)]


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=8), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_any_history_cut_anywhere(history: list[tuple[int, bool]], seed: int) -> None:
    from tempfile import TemporaryDirectory

    from tests.polardbx.vtso import Committed, assign

    log, commits = Log(), list[Committed]()
    for transaction, (tso, distributed) in enumerate(history, 1):
        if distributed:
            _two_phases(log, transaction, gcn(tso, 5))
            commits.append(Committed(tso, transaction))
        else:
            log.group(*local(), before=[gcn(9, 1)])
            commits.append(Committed(None, 0))
    with TemporaryDirectory() as name:
        config = log.save(Path(name))
        found = [key for key, _ in keys(config, Path(name), seed, 10)]
    assert found == sorted(assign(commits, 1))


@pytest.mark.parametrize(
    ("events", "carrier"),
    [
        ([gcn(1, 1)], "polardbx"),
        ([sequence(1, 1)], "polardbx"),
        ([end(1, status=b"\xc8" + bytes(8))], "polardbx"),
        ([wire.query(f"XA END {text(1)}", status=wire.SESSION + b"\xc9" + bytes(8))], "polardbx"),
        ([end(1)], None),
        (local(), None),
    ],
)
def test_what_a_node_is_taken_for(events: list[Event], carrier: str | None) -> None:
    log = Log()
    log.group(*events)
    detection = Detection(("__cdc__", "__commit_ts__"))
    assert detection.feed(walk(bytes(log.data[4:]), checksum=True, offset=4)) == carrier
    # A name alone says nothing: other coordinators name their transactions like PolarDB-X's, and would be torn.
    assert detection.likely == carrier


def test_the_dialect_is_found_in_the_log(tmp_path: Path) -> None:
    log = Log()
    _two_phases(log, 1, gcn(5, 5))
    config = MergeConfig.load(log.save(tmp_path))
    inputs = node_inputs(discover(config), config.node_numbers(), ManifestState())
    assert detect_carrier(config, inputs) == ("polardbx", {"dn-1": "polardbx"})
