"""The index of a log's transactions says what its events say, whatever the windows, and takes no damage for it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import RowsQuery
from binlog_merge.binlog.header import pack_event
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import MergeError
from binlog_merge.log.index import key_of, transactions_of
from binlog_merge.log.log import Log
from binlog_merge.log.place import Place, parse_place
from binlog_merge.log.reader import Begin, End, OrderedBy, order_key
from snapshot_store.tso import OrderKey, tso_millis
from tests.targets.server.test_replay import merged


def by_items(binlog: Log) -> list[Any]:
    found: list[Any] = []
    begin, key = None, None
    for item in binlog.items():
        if isinstance(item, Begin):
            begin, key = item, None
        elif isinstance(item, OrderedBy):
            key = item.key
        elif isinstance(item, End) and begin is not None:
            found.append((begin.position, item.position - begin.position, begin.rank, begin.commit_us, key))
    return found


def by_index(binlog: Log, window: int) -> list[Any]:
    return [
        (*(int(value) for value in row[:4]), key_of(row))
        for file in binlog.state.files
        for rows in transactions_of(binlog.folder, file, window)
        for row in rows
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["three-nodes-online-ddl", "gtid-off", "rotation", "large-blobs", "checksum-none"])
def test_it_is_what_the_events_say(name: str, tmp_path: Path) -> None:
    binlog = merged(name, tmp_path)
    for window in (1 << 20, 5000):
        assert by_index(binlog, window) == by_items(binlog)


def test_damage_is_no_transaction(tmp_path: Path) -> None:
    """Of what is read (a GTID event, BEGIN, the order key) no byte may change unseen; of what is jumped over it may."""
    binlog = merged("three-nodes-online-ddl", tmp_path)
    good, path = by_index(binlog, 1 << 20), tmp_path / "binlog.000001"
    data = path.read_bytes()
    for at in range(4, 1200, 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        try:
            found = by_index(binlog, 1 << 20)
        except MergeError:
            continue
        assert [row[:4] for row in found] == [row[:4] for row in good]
        assert all(key in (known, None) for (*_, key), (*_, known) in zip(found, good, strict=True))


def test_all_ways_to_name_a_transaction_are_one(tmp_path: Path) -> None:
    binlog = Log(merged("three-nodes-online-ddl", tmp_path).folder)
    every = by_items(binlog)
    for position, _, rank, _, key in every[5::23]:
        if key is None:
            continue
        names = [f"{binlog.cluster_uuid}:{rank}", key.text(), f"binlog.000001:{position}"]
        if key.seq == 0:
            names.append(str(key.commit_tso))
        for name in names:
            moment = parse_place("--start", name)
            assert binlog.between(moment, None) == (rank, len(every)), name
            assert binlog.between(None, moment)[1] == (rank if moment.kind == "gtid" else rank - 1), name
    key = every[40][4]
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=tso_millis(key.commit_tso))
    first, _ = binlog.between(parse_place("--start", moment), None)
    same = [rank for _, _, rank, _, one in every if one and tso_millis(one.commit_tso) == tso_millis(key.commit_tso)]
    assert first == same[0]


def test_the_place_of_a_key_is_that_transaction(tmp_path: Path) -> None:
    """Where a DDL is before transactions without a TSO of their own, whose keys have its TSO."""
    binlog = Log(merged("reshape-strings", tmp_path).folder)
    ranks = {key: row[2] for row in by_index(binlog, 1 << 20) if (key := row[-1]) is not None}
    assert len({key.commit_tso for key in ranks}) < len(ranks)
    for key, rank in ranks.items():
        place, after = (Place.at_key("p", one) for one in (key, key._replace(node_seq=key.node_seq + 1)))
        assert binlog.between(place, None)[0] == rank == binlog.between(None, place)[1] + 1
        if place.text != binlog.state.files[-1].last_key:
            assert binlog.between(None, after)[1] >= rank


KEY = OrderKey(7507804165234491392, 1 << 40, 3, 2)


@pytest.mark.parametrize(
    ("before", "after", "is_key"),
    [
        ("# CTS::", "", True),
        ("CTS::", "", True),
        ("# CTS::", "\nUPDATE t SET a = 1", True),
        # PolarDB-X's mark of deletes of rows whose time to live is over
        ("# CTS::", "::ARCHIVE", True),
        ("CTS::", "::ARCHIVE", True),
        ("# CTS::", "::ARCHIVE\nDELETE FROM t", True),
        ("# CTS::", "::ARCHIVED", False),
        ("# CTS::", "0", False),
        (" CTS::", "", False),
    ],
)
def test_a_text_has_a_key_for_the_kernel_and_its_twin(before: str, after: str, is_key: bool) -> None:
    text = RowsQuery(f"{before}{KEY.text()}{after}".encode())
    event = pack_event(
        EventType.ROWS_QUERY_LOG_EVENT, text.pack(), timestamp=0, server_id=1, flags=0, position=4, checksum=True
    )
    transactions = np.zeros((1, 6), np.int64)
    transactions[0, k.T_GTID] = -1
    out = np.full((1, x.COLUMNS), -1, np.int64)
    x.begins(np.frombuffer(bytearray(event), np.uint8), transactions, 4, out)
    assert order_key(text) == key_of(out[0]) == (KEY if is_key else None)
