"""Bad input: each fault has its exit code, an error that says where and what to do, and leaves a valid prefix."""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ERRORS, MergeError
from binlog_merge.files.lock import OutputLock
from tests.effort import keeping
from tests.merge_e2e import editing as e
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.editing import Log, Piece, assert_prefix, in_use, query, recheck
from tests.merge_e2e.local import merge, state_of, written

SEED, ROTATED = case_named("seed-add-column"), case_named("rotation")


class Cluster:
    """A copy of a case that may be damaged."""

    def __init__(self, case: Path, folder: Path, change: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.config = copy_case(case, folder / "case", change)
        self.good = whole(case / "cluster.yaml")
        self.out = folder / "out"

    def file(self, node: str = "dn-1", number: int = 1) -> Path:
        return self.config.parent / "nodes" / node / f"binlog.{number:06d}"

    def edit(self, change: Callable[[Log], Log], node: str = "dn-1", number: int = 1) -> None:
        path = self.file(node, number)
        change(Log.load(path)).save(path)

    def refused(self, code: str, *, end_of_input: bool = True, **options: Any) -> MergeError:
        """Merge; returns the error, after looking at its code, its place, its remedy and what was published."""
        with pytest.raises(MergeError) as raised:
            merge(self.config, self.out, end_of_input=end_of_input, **options)
        error = raised.value
        assert error.code == code, error
        assert error.exit_code == ERRORS[code].exit_code != 70
        assert error.message and error.remedy
        assert_prefix(written(self.out), self.good)
        return error

    def merged(self) -> bool:
        """Merge, and tell whether the output is the good one."""
        merge(self.config, self.out)
        return written(self.out) == self.good


@pytest.fixture
def seed(tmp_path: Path) -> Cluster:
    return Cluster(SEED, tmp_path)


@pytest.fixture
def rotated(tmp_path: Path) -> Cluster:
    return Cluster(ROTATED, tmp_path)


def _place(error: MergeError, path: Path, position: int | None = None, node: str = "dn-1") -> None:
    assert (error.node, error.file) == (node, str(path)), error
    assert error.position is not None or error.order_key is not None, error
    assert position is None or error.position == position, error


def _middle(log: Log, *types: int, text: str = "") -> int:
    """Return the index of an event of these types, from the middle of the file on, outside of marker transactions."""
    return log.find(*types, text=text, after=len(log.events) // 2)


# --- damaged files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", keeping([6], [None, 6]))
def test_the_last_event_of_a_file_that_has_a_successor_is_cut(rotated: Cluster, partitions: int | None) -> None:
    path = rotated.file("dn-2", 4)
    data = path.read_bytes()
    last = Log.load(data).events[-2].at
    for keep in (len(data) - 3, last + 25, last + 7):
        path.write_bytes(data[:keep])
        error = rotated.refused("truncated-event", partitions=partitions)
        _place(error, path, node="dn-2")
        shutil.rmtree(rotated.out)
    path.write_bytes(data)
    assert rotated.merged()


@pytest.mark.parametrize("partitions", keeping([6], [None, 6]))
def test_the_last_event_of_all_is_cut(seed: Cluster, partitions: int | None) -> None:
    path = seed.file("dn-1")
    data = path.read_bytes()
    log = Log.load(data)
    for keep in (log.events[-2].at + 30, log.events[-1].at + 5, log.events[-3].at + 3):
        path.write_bytes(in_use(data[:keep]))
        merge(seed.config, seed.out, end_of_input=False, partitions=partitions)  # still being written
        assert_prefix(written(seed.out), seed.good)
        error = seed.refused("truncated-event", partitions=partitions)
        _place(error, path)
        shutil.rmtree(seed.out)
    path.write_bytes(data[:-2])  # closed, so nobody will write the rest
    _place(seed.refused("truncated-event", end_of_input=False, partitions=partitions), path, log.events[-1].at)


def test_a_file_ends_inside_a_transaction(seed: Cluster) -> None:
    path = seed.file("dn-1")
    log = Log.load(path)
    cut = _middle(log, e.TABLE_MAP)
    log.with_events(log.events[:cut]).save(path)
    result = merge(seed.config, seed.out, end_of_input=False)
    assert "not whole yet" in result.warnings[0]
    begins = max(log.events[first].at for first, end in log.groups() if first < cut)
    _place(seed.refused("truncated-event"), path, begins)


@pytest.mark.parametrize(
    "case",  # with and without checksums
    keeping(["checksum-none"], ["seed-add-column", "compressed", "checksum-none", "ddl-by-markers"]),
)
def test_a_flipped_bit_is_an_error_or_changes_nothing(case: str, tmp_path: Path) -> None:
    rng = random.Random(case)
    cluster = Cluster(case_named(case), tmp_path)
    path = cluster.file("dn-1")
    data = path.read_bytes()
    checksum = Log.load(data).checksum
    codes = set()
    for at in [*range(4, 23), *rng.choices(range(23, len(data)), k=15)]:
        damaged = bytearray(data)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        shutil.rmtree(cluster.out, ignore_errors=True)
        try:
            merge(cluster.config, cluster.out, partitions=rng.choice([None, 4]))
        except MergeError as error:
            assert error.exit_code != 70 and error.node == "dn-1" and error.remedy, error
            codes.add(error.code)
            assert_prefix(written(cluster.out), cluster.good) if checksum else None
        else:
            assert written(cluster.out) == cluster.good or not checksum, f"byte {at} changed the output unnoticed"
    assert "checksum-mismatch" in codes


@pytest.mark.parametrize("part", ["header", "body", "checksum"])
def test_a_flipped_byte_is_found_where_it_is(part: str, seed: Cluster) -> None:
    path = seed.file()
    data = bytearray(path.read_bytes())
    log = Log.load(path)
    event = log.events[_middle(log, *e.ROWS)]
    size = len(e.pack(event, event.at, True))
    data[event.at + {"header": 2, "body": 21, "checksum": size - 1}[part]] ^= 0x40
    path.write_bytes(data)
    _place(seed.refused("checksum-mismatch"), path, event.at)


def test_the_checksum_algorithm_is_flipped(seed: Cluster) -> None:
    path = seed.file()
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[13:17], "little")
    assert data[4 + size - 5] == 1
    data[4 + size - 5] = 0
    path.write_bytes(data)
    _place(seed.refused("checksum-mismatch"), path, 4)


@pytest.mark.parametrize("field, value", [(9, 0), (9, 18), (9, 0x7FFFFFFF), (9, 200), (13, 5), (4, 19), (4, 99)])
def test_a_header_that_lies_under_a_right_checksum(field: int, value: int, seed: Cluster) -> None:
    path = seed.file()
    data = bytearray(path.read_bytes())
    log = Log.load(path)
    at = log.events[_middle(log, e.XID)].at
    data[at + field : at + field + (1 if field == 4 else 4)] = value.to_bytes(1 if field == 4 else 4, "little")
    if field != 9:
        recheck(data, at)
    path.write_bytes(data)
    with pytest.raises(MergeError) as raised:
        merge(seed.config, seed.out)
    assert raised.value.exit_code in (11, 12, 19)
    _place(raised.value, path)
    assert_prefix(written(seed.out), seed.good)


# --- files that are missing, or not what they should be --------------------------------------------------------------


def test_a_file_is_missing(rotated: Cluster) -> None:
    rotated.file("dn-2", 3).unlink()
    error = rotated.refused("missing-file")
    assert error.node == "dn-2" and "binlog.000003" in error.message
    assert not written(rotated.out)


def test_a_file_is_there_twice(rotated: Cluster) -> None:
    shutil.copy(rotated.file("dn-2", 2), rotated.file("dn-2", 11))
    assert rotated.refused("duplicate-file").node == "dn-2"


def test_a_file_of_another_node(rotated: Cluster) -> None:
    shutil.copy(rotated.file("dn-1", 8), rotated.file("dn-2", 11))
    rotated.file("dn-1", 8).unlink()
    error = rotated.refused("wrong-node")
    assert error.file is not None and "server id" in error.message


def test_an_encrypted_file(rotated: Cluster) -> None:
    path = rotated.file("dn-1", 5)
    path.write_bytes(b"\xfdbin" + path.read_bytes()[4:])
    _place(rotated.refused("encrypted-binlog"), path, 0)


def test_no_files(seed: Cluster) -> None:
    seed.file("dn-1").unlink()
    error = seed.refused("no-files")
    assert error.node == "dn-1" and "nodes/dn-1/" in error.message
    assert not seed.out.exists()


def test_a_file_that_was_merged_before_is_another_one_now(seed: Cluster) -> None:
    merge(seed.config, seed.out, end_of_input=False)

    def begun_anew(log: Log) -> Log:
        first = log.events[0]
        body = first.body[:52] + (1_800_000_000).to_bytes(4, "little") + first.body[56:]
        return log.changed(0, replace(first, timestamp=1_800_000_000, body=body))

    seed.edit(begun_anew)
    assert seed.refused("wrong-node").node == "dn-1"


def test_a_file_that_was_merged_before_is_shorter_now(seed: Cluster) -> None:
    path = seed.file()
    merge(seed.config, seed.out, end_of_input=False)
    log = Log.load(path)
    path.write_bytes(path.read_bytes()[: log.boundaries()[-3]])
    assert seed.refused("wrong-node").file == str(path)


# --- events that cannot be merged ------------------------------------------------------------------------------------


def test_a_statement_inside_a_transaction(seed: Cluster) -> None:
    log = Log.load(seed.file())
    at = _middle(log, e.TABLE_MAP)
    statement = query(log.events[at], "INSERT INTO d1_000000.t1 VALUES (1, 'a')", "d1_000000")
    seed.edit(lambda log: log.inserted(at, statement))
    error = seed.refused("statement-dml")
    _place(error, seed.file(), log.events[at].at)
    assert "INSERT INTO" in error.message and "binlog_format=ROW" in error.remedy


@pytest.mark.parametrize("kind", [5, 13, 14])
def test_the_events_that_come_with_statements(kind: int, seed: Cluster) -> None:
    log = Log.load(seed.file())
    at = _middle(log, e.TABLE_MAP)
    seed.edit(lambda log: log.inserted(at, replace(log.events[at], type=kind, body=bytes(16))))
    # By themselves they change nothing; but the transaction is longer than its GTID event says.
    error = seed.refused("checksum-mismatch")
    assert error.file == str(seed.file()) and "an event is missing or doubled" in error.message


def test_rows_without_a_table_map(seed: Cluster) -> None:
    log = Log.load(seed.file())
    at = _middle(log, e.TABLE_MAP)
    seed.edit(lambda log: log.without(at))
    _place(seed.refused("rows-without-table-map"), seed.file(), log.events[at].at)


@pytest.mark.parametrize("inside", [False, True])
def test_an_event_type_nobody_knows(inside: bool, seed: Cluster) -> None:
    log = Log.load(seed.file())
    at = _middle(log, e.TABLE_MAP if inside else e.GTID)
    stranger = Piece(log.events[at].timestamp, 99, log.events[at].server_id, 0, b"what is this")
    seed.edit(lambda log: log.inserted(at, stranger))
    error = seed.refused("unknown-event")
    _place(error, seed.file(), log.events[at].at)
    assert "99" in error.message


@pytest.mark.parametrize("partitions", [1, 5])
def test_an_unknown_event_that_is_marked_ignorable_is_skipped_and_counted(partitions: int, seed: Cluster) -> None:
    log = Log.load(seed.file())
    stranger = Piece(log.events[0].timestamp, 99, log.events[0].server_id, 0x80, b"ignore me")
    for types in ((e.TABLE_MAP,), (e.GTID,), (e.XID,)):
        seed.edit(lambda log, types=types: log.inserted(_middle(log, *types), stranger))  # type: ignore[misc]
    result = merge(seed.config, seed.out, partitions=partitions)
    assert written(seed.out) == seed.good
    assert result.ignored["events"] == 3


def test_an_incident(seed: Cluster) -> None:
    log = Log.load(seed.file())
    at = _middle(log, e.GTID)
    incident = replace(log.events[at], type=26, body=b"\x01\x00\x00")
    seed.edit(lambda log: log.inserted(at, incident))
    _place(seed.refused("unsupported-input"), seed.file(), log.events[at].at)


def test_a_transaction_without_an_end(seed: Cluster) -> None:
    log = Log.load(seed.file())
    at = _middle(log, e.XID)
    seed.edit(lambda log: log.without(at))
    _place(seed.refused("checksum-mismatch"), seed.file(), log.events[at].at)


def test_an_xa_commit_without_a_prepare(seed: Cluster) -> None:
    def drop_a_prepare(log: Log) -> Log:
        at = _middle(log, e.XA_PREPARE)
        first, end = next((a, b) for a, b in log.groups() if a < at < b)
        return log.without(*range(first, end)).renumbered()

    seed.edit(drop_a_prepare)
    error = seed.refused("unsupported-input")
    _place(error, seed.file())
    assert "XA PREPARE" in error.message


def test_a_transaction_is_prepared_twice(seed: Cluster) -> None:
    def twice(log: Log) -> Log:
        at = _middle(log, e.XA_PREPARE)
        first, end = next((a, b) for a, b in log.groups() if a < at < b)
        return log.inserted(end, *log.events[first:end]).renumbered()

    seed.edit(twice)
    _place(seed.refused("checksum-mismatch"), seed.file())


# --- commit TSOs -----------------------------------------------------------------------------------------------------


def test_a_distributed_transaction_without_a_commit_tso(tmp_path: Path) -> None:
    cluster = Cluster(case_named("three-nodes-commit-order"), tmp_path)
    for node in ("dn-1", "dn-2", "dn-3"):
        cluster.edit(_without_commit_rows, node)
    error = cluster.refused("missing-commit-tso")
    assert error.node is not None


def _without_commit_rows(log: Log) -> Log:
    rows = [i for a, b in log.groups() if any(b"__commit_ts__" in x.body for x in log.events[a:b]) for i in range(a, b)]
    return log.without(*rows).renumbered()


@pytest.mark.parametrize("partitions", [None, 9])
def test_one_transaction_with_two_commit_tsos(partitions: int | None, seed: Cluster) -> None:
    def another_row(log: Log) -> Log:
        at = next(i for i, x in enumerate(log.events) if i > len(log.events) // 2 and b"__commit_ts__" in x.body)
        first, end = next((a, b) for a, b in log.groups() if a < at < b)
        again = [
            replace(x, body=x.body[:-8] + (int.from_bytes(x.body[-8:], "little") + 1).to_bytes(8, "little"))
            if x.type == e.WRITE_ROWS
            else x
            for x in log.events[first:end]
        ]
        return log.inserted(end, *again).renumbered()

    seed.edit(another_row)
    _place(seed.refused("commit-tso-conflict", partitions=partitions), seed.file())


# --- schemas ---------------------------------------------------------------------------------------------------------


def test_a_table_whose_schema_is_not_known(tmp_path: Path) -> None:
    cluster = Cluster(case_named("three-nodes-commit-order"), tmp_path)
    base = cluster.config.parent / "base" / "logical.sql"
    base.write_text("CREATE DATABASE nothing;\n")
    error = cluster.refused("unknown-table-schema")
    assert error.node and error.file and error.position and error.order_key
    assert "base.logical" in error.remedy


def test_a_column_count_against_the_history(tmp_path: Path) -> None:
    cluster = Cluster(case_named("three-nodes-commit-order"), tmp_path)
    base = cluster.config.parent / "base" / "dn-2.sql"
    text = base.read_text()
    assert "PRIMARY KEY (`id`)" in text
    base.write_text(text.replace("  PRIMARY KEY (`id`)", "  `more` int DEFAULT NULL,\n  PRIMARY KEY (`id`)"))
    error = cluster.refused("schema-mismatch")
    assert error.node == "dn-2" and error.file and error.position and error.order_key
    assert "columns" in error.message and "base.physical" in error.remedy


# --- markers ---------------------------------------------------------------------------------------------------------


def _marker_groups(log: Log, nth: int) -> list[int]:
    """Return the indexes of all events of the nth marker transaction: prepare, commit row, commit."""
    markers = [
        (a, b)
        for a, b in log.groups()
        if any(x.type == e.TABLE_MAP and b"__cdc_ddl_record__" in x.body for x in log.events[a:b])
    ]
    first, end = markers[nth]
    gtrid = log.events[first + 1].text.split("'")[1]
    found = list(range(first, end))
    for a, b in log.groups():
        texts = [x.text for x in log.events[a:b] if x.type == e.QUERY]
        row = any(x.type == e.WRITE_ROWS and bytes.fromhex(gtrid) in x.body for x in log.events[a:b])
        if a > first and (row or any(t.startswith("XA COMMIT") and gtrid in t for t in texts)):
            found += range(a, b)
    return found


def test_a_marker_on_some_nodes_only(seed: Cluster) -> None:
    seed.edit(lambda log: log.without(*_marker_groups(log, 1)).renumbered(), node="dn-2")
    error = seed.refused("marker-incomplete")
    assert error.node == "dn-1" and error.file and error.position and error.order_key
    assert "dn-2" in error.message and "ADD COLUMN" in error.message
    assert len(written(seed.out)) == 1  # what stands before the marker is there


def _marker_text_changed(log: Log, old: bytes, new: bytes) -> Log:
    """Return the log with the second marker's row changed."""
    rows = (i for i in _marker_groups(log, 1) if log.events[i].type == e.WRITE_ROWS)
    at = next(i for i in rows if old in log.events[i].body)
    return log.changed(at, replace(log.events[at], body=log.events[at].body.replace(old, new)))


def test_markers_that_disagree(seed: Cluster) -> None:
    seed.edit(lambda log: _marker_text_changed(log, b"ADDR", b"ADDX"), node="dn-2")
    error = seed.refused("marker-disagreement")
    assert error.order_key and "ADDX" in error.message and "ADDR" in error.message


def test_a_marker_whose_ddl_is_not_understood(seed: Cluster) -> None:
    for node in ("dn-1", "dn-2"):
        seed.edit(lambda log: _marker_text_changed(log, b"ADD COLUMN", b"ADD COLUMM"), node=node)
    error = seed.refused("ddl-not-understood")
    assert error.order_key and "ADD COLUMM" in error.message


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_transaction_below_what_is_published(tmp_path: Path) -> None:
    cluster = Cluster(case_named("three-nodes-commit-order"), tmp_path)
    path = cluster.file("dn-2")
    data = path.read_bytes()
    log = Log.load(data)
    path.write_bytes(data[: log.boundaries()[len(log.boundaries()) // 2]])
    merge(cluster.config, cluster.out)  # end of input, it said
    published = written(cluster.out)
    path.write_bytes(data)
    with pytest.raises(MergeError) as raised:
        merge(cluster.config, cluster.out)
    assert (raised.value.code, raised.value.exit_code, raised.value.node) == ("late-transaction", 24, "dn-2")
    assert raised.value.order_key and "empty directory" in raised.value.remedy
    assert written(cluster.out) == published


def test_the_output_directory_is_in_use(seed: Cluster) -> None:
    with OutputLock(seed.out):
        error = seed.refused("output-busy")
    assert error.file == str(seed.out)
    assert seed.merged()


def test_an_output_of_another_configuration(seed: Cluster) -> None:
    merge(seed.config, seed.out, end_of_input=False)
    config = MergeConfig.load(seed.config)
    other = config.model_copy(update={"output": config.output.model_copy(update={"server_id": 4711})})
    with pytest.raises(MergeError) as raised:
        merge(other, seed.out)
    assert raised.value.exit_code == 28 and "server-id" in raised.value.message


def test_after_the_cause_is_removed_the_merge_goes_on(seed: Cluster) -> None:
    path = seed.file("dn-2")
    data = path.read_bytes()
    log = Log.load(data)
    for share in (0.5, 0.75, 0.6):  # a copy may also be worse than the one before
        damaged = bytearray(data)
        damaged[log.events[int(len(log.events) * share)].at + 20] ^= 1
        path.write_bytes(damaged)
        seed.refused("checksum-mismatch")
    path.write_bytes(data)
    assert seed.merged()
    assert state_of(seed.out).run > 1


def _described(*changes: tuple[int, bytes]) -> Callable[[Log], Log]:
    """Return an edit that puts a second format description behind the first two events, with bytes of it changed."""

    def edit(log: Log) -> Log:
        body = bytearray(log.events[0].body)
        for at, value in changes:
            body[at : at + len(value) or None] = value
        return log.inserted(2, replace(log.events[0], body=bytes(body), flags=0))

    return edit


def test_a_second_format_description(seed: Cluster) -> None:
    seed.edit(_described())
    assert seed.merged()


@pytest.mark.parametrize(("at", "value"), [(0, b"\3\0"), (56, b"\0"), (-1, b"\0")])
def test_a_second_format_description_that_describes_other_events(at: int, value: bytes, seed: Cluster) -> None:
    place = Log.load(seed.file()).events[2].at
    body = Log.load(seed.file()).events[0].body
    seed.edit(_described((at % len(body), value)))
    _place(seed.refused("checksum-mismatch"), seed.file(), place)


def _beside_the_marker(log: Log) -> tuple[int, Log]:
    """Copy the rows of another transaction into that of the first marker; return the marker's first event."""
    marker = next(i for i, p in enumerate(log.events) if p.type == e.TABLE_MAP and b"__cdc_ddl_record__" in p.body)
    rows = log.find(e.WRITE_ROWS, after=0)
    while b"__cdc__" in log.events[rows - 1].body or log.events[rows - 1].type != e.TABLE_MAP:
        rows = log.find(e.WRITE_ROWS, after=rows)
    first = max(i for i, _ in log.groups() if i < marker)
    return first, log.inserted(marker, *log.events[rows - 1 : rows + 1]).with_transaction_lengths()


def test_rows_of_a_user_beside_a_marker(seed: Cluster) -> None:
    """The marker's DDL comes out in place of its transaction, and these rows would be lost without a word."""
    first, log = _beside_the_marker(Log.load(seed.file()))
    log.save(seed.file())
    error = seed.refused("unsupported-input")
    _place(error, seed.file(), log.events[first].at)
    assert "rows of d1_" in error.message and "marker" in error.message


def test_rows_of_a_user_beside_the_table_map_of_a_marker(seed: Cluster) -> None:
    log = Log.load(seed.file())
    marker = next(p for p in log.events if p.type == e.TABLE_MAP and b"__cdc_ddl_record__" in p.body)
    rows = log.find(e.WRITE_ROWS, after=0)
    while b"__cdc__" in log.events[rows - 1].body or log.events[rows - 1].type != e.TABLE_MAP:
        rows = log.find(e.WRITE_ROWS, after=rows)
    log.inserted(rows - 1, marker).with_transaction_lengths().save(seed.file())
    assert "rows of d1_" in seed.refused("unsupported-input").message
