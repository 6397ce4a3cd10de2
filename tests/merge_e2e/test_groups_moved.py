"""Whole transactions taken out, doubled, exchanged or moved, with positions and checksums made right.

GTIDs and sequence numbers tell, and what comes out before the stop is a prefix of the right output.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import MergeError, TransactionMissing, TransactionTwice
from binlog_merge.pipeline.values import MergeResult
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, some_inputs, whole
from tests.merge_e2e.editing import GTID, GTIDS, PREVIOUS_GTIDS, XID, Log, Piece, assert_prefix
from tests.merge_e2e.local import merge, state_of, written
from tests.merge_e2e.mutation import groups_moved

ROTATION = case_named("rotation")


def files_of(config: Path, node: str = "*") -> list[Path]:
    return sorted(p for p in (config.parent / "nodes").glob(f"{node}/binlog.*") if p.suffix != ".index")


def stopped(config: Path, out: Path, good: Path, **options: Any) -> MergeError:
    """Merge, which fails; what is there is a prefix of the case's right output."""
    with pytest.raises(MergeError) as caught:
        merge(config, out, **options)
    assert_prefix(written(out), whole(good / "cluster.yaml"))
    return caught.value


def with_groups(log: Log, groups: list[tuple[Piece, ...]]) -> bytes:
    spans = list(log.groups())
    head, tail = (log.events[: spans[0][0]], log.events[spans[-1][1] :]) if spans else (log.events[:2], log.events[2:])
    return log.with_events([*head, *chain.from_iterable(groups), *tail]).pack()


def groups_of(log: Log) -> list[tuple[Piece, ...]]:
    return [log.events[first:end] for first, end in log.groups()]


@some_inputs
def test_groups_moved_inside_a_file(case: Path, tmp_path: Path) -> None:
    rng = random.Random(case.name)
    for number in range(2):
        config = copy_case(case, tmp_path / str(number))
        path = rng.choice([p for p in files_of(config) if len(list(Log.load(p).groups())) > 1])
        data = groups_moved(path.read_bytes(), rng)
        assert data is not None
        path.write_bytes(data)
        error = stopped(config, tmp_path / f"out-{number}", case, partitions=rng.choice([None, 3]))
        assert error.exit_code != 70 and error.remedy
        assert isinstance(error, TransactionMissing | TransactionTwice), error
        assert error.file == str(path) and error.position is not None


def test_the_same_is_found_however_the_files_are_cut(tmp_path: Path) -> None:
    """Every group of a file is taken out, or doubled, in turn; the place found is that of the group behind it."""
    case = case_named("two-nodes")
    path = files_of(case / "cluster.yaml", "dn-2")[0]
    log = Log.load(path)
    groups = groups_of(log)
    for at in (0, 1, 7, len(groups) - 2):
        for edit, kind in (([], TransactionMissing), ([groups[at]] * 2, TransactionTwice)):
            found = set()
            for partitions in (None, 9, 40):
                folder = tmp_path / f"{at}-{len(edit)}-{partitions}"
                config = copy_case(case, folder)
                broken = files_of(config, "dn-2")[0]
                broken.write_bytes(with_groups(log, [*groups[:at], *edit, *groups[at + 1 :]]))
                error = stopped(config, folder / "out", case, partitions=partitions)
                assert type(error) is kind and error.node == "dn-2"
                found.add((error.message, error.position, tuple(sorted(written(folder / "out").items()))))
            assert len(found) == 1
            starts = [event.at for event in Log.load(broken).events if event.type in GTIDS]
            assert next(iter(found))[1] == starts[at + (1 if edit else 0)]


def test_the_last_group_of_a_file_is_missing(tmp_path: Path) -> None:
    """Sequence numbers do not tell of it: the next file does, which says what was executed before."""
    for node, index in (("dn-1", 0), ("dn-2", 3)):
        config = copy_case(ROTATION, tmp_path / node)
        path, following = files_of(config, node)[index : index + 2]
        log = Log.load(path)
        last = log.events[list(log.groups())[-1][0]]
        path.write_bytes(with_groups(log, groups_of(log)[:-1]))
        error = stopped(config, tmp_path / node / "out", ROTATION, partitions=5)
        assert isinstance(error, TransactionMissing) and error.file == str(path)
        gno = int.from_bytes(last.body[17:25], "little")
        assert last.type == GTID and f":{gno} was executed before" in error.message and following.name in error.message


def test_a_group_that_moved_to_a_later_file(tmp_path: Path) -> None:
    config = copy_case(ROTATION, tmp_path)
    first, second = files_of(config, "dn-2")[:2]
    one, two = Log.load(first), Log.load(second)
    first.write_bytes(with_groups(one, groups_of(one)[:-1]))
    second.write_bytes(with_groups(two, [groups_of(one)[-1], *groups_of(two)]))
    error = stopped(config, tmp_path / "out", ROTATION)
    assert isinstance(error, TransactionMissing) and error.file == str(first)


def renumbered(group: tuple[Piece, ...], number: int) -> tuple[Piece, ...]:
    """Return a group with another sequence number."""
    head = group[0]
    body = head.body[:34] + number.to_bytes(8, "little") + head.body[42:]
    return (Piece(head.timestamp, head.type, head.server_id, head.flags, body), *group[1:])


@pytest.mark.parametrize("later", [1, 4])
def test_a_group_again_in_a_later_file_and_run(later: int, tmp_path: Path) -> None:
    """With a sequence number that fits: its GTID tells, in one run or when the file comes later than the first."""
    for runs in (1, 2):
        config = copy_case(ROTATION, tmp_path / str(runs))
        paths = files_of(config, "dn-2")
        first, again = Log.load(paths[0]), Log.load(paths[later])
        groups = groups_of(again)
        path = paths[later]
        path.write_bytes(with_groups(again, [*groups, renumbered(groups_of(first)[3], len(groups) + 1)]))
        out = tmp_path / str(runs) / "out"
        if runs == 2:
            hidden = [(p, p.read_bytes()) for p in paths[later:]]
            for p, _ in hidden:
                p.unlink()
            merge(config, out, end_of_input=False)
            for p, data in hidden:
                p.write_bytes(data)
        error = stopped(config, out, ROTATION, partitions=6)
        assert isinstance(error, TransactionTwice) and error.file == str(path)
        assert error.position == [e.at for e in Log.load(path).events if e.type in GTIDS][-1]
        assert "RESET" in error.remedy


@pytest.mark.parametrize("runs", [1, 2])
def test_a_group_of_another_node(runs: int, tmp_path: Path) -> None:
    case = case_named("two-nodes")
    config = copy_case(case, tmp_path)
    one, two = files_of(config)
    whole_two = two.read_bytes()
    first, second = Log.load(one), Log.load(two)
    groups = groups_of(second)
    stranger = renumbered(groups_of(first)[2], len(groups) + 1)
    out = tmp_path / "out"
    if runs == 2:
        merge(config, out, end_of_input=False)
        assert state_of(out).last is not None
    two.write_bytes(with_groups(second, [*groups, stranger]))
    error = stopped(config, out, case)
    assert isinstance(error, TransactionTwice) and (error.node, error.file) == ("dn-2", str(two))
    # Where a first run has published it, only its GTID is known of it.
    place = f" ({one}:{first.events[list(first.groups())[2][0]].at})" if runs == 1 else ""
    assert error.message.endswith(f"is in the log of node dn-1 too{place}")
    assert error.position is not None and error.position > len(whole_two) // 2
    assert "replica" in error.remedy


def test_another_replica_leads(tmp_path: Path) -> None:
    """PolarDB-X's replicas write one log in turn, each with a count of its own: GTIDs tell that nothing is missing."""
    case = case_named("polardbx-scale-out")
    path = max(files_of(case / "cluster.yaml"), key=lambda p: p.stat().st_size)
    log = Log.load(path)
    half = [i for i, event in enumerate(log.events) if event.type in GTIDS][20:]
    led = [
        renumbered((event,), int.from_bytes(event.body[34:42], "little") + 1000)[0] if i in half else event
        for i, event in enumerate(log.events)
    ]
    for partitions in (None, 30):
        config = copy_case(case, tmp_path / str(partitions))
        target = config.parent / path.relative_to(case)
        target.write_bytes(log.with_events(led).pack())
        out = tmp_path / f"out-{partitions}"
        assert not [w for w in merge(config, out, partitions=partitions).warnings if "stands where" in w]
        assert written(out) == whole(case / "cluster.yaml")

        first, end = list(log.groups())[20]
        target.write_bytes(log.with_events([*led[:first], *led[end:]]).pack())
        error = stopped(config, tmp_path / f"stopped-{partitions}", case, partitions=partitions)
        assert isinstance(error, TransactionMissing) and error.file == str(target)


def warned(config: Path, out: Path, **options: Any) -> MergeResult:
    config.write_text(config.read_text() + "log-doubts: warn\n")
    return merge(config, out, **options)


def test_with_warnings_the_logs_are_merged_as_they_are(tmp_path: Path) -> None:
    case = case_named("gtid-off")
    config = copy_case(case, tmp_path)
    path = files_of(config, "dn-1")[0]
    log = Log.load(path)
    groups = groups_of(log)
    path.write_bytes(with_groups(log, [*groups[:20], *groups[21:]]))
    result = warned(config, tmp_path / "out", partitions=7)
    assert [w for w in result.warnings if "log-doubts" in w and str(path) in w and "stands where 21 should" in w]


def as_written_by_5_6(data: bytes) -> bytes:
    """Return a file without sequence numbers."""
    log = Log.load(data)
    return log.with_events([replace(e, body=e.body[:25]) if e.type == GTID else e for e in log.events]).pack()


@pytest.mark.parametrize("partitions", keeping([12], [None, 12]))
def test_without_sequence_numbers_gtids_tell(partitions: int | None, tmp_path: Path) -> None:
    """A transaction taken out of the middle of a file is missed once the next file tells what was executed."""
    for edit in ("nothing", "out", "twice"):
        config = copy_case(ROTATION, tmp_path / edit)
        for path in files_of(config):
            path.write_bytes(as_written_by_5_6(path.read_bytes()))
        path, at = next(
            (path, at)
            for path in files_of(config, "dn-2")[:-1]
            for at, group in enumerate(groups_of(Log.load(path))[:-1])
            if at and group[-1].type == XID
        )
        log = Log.load(path)
        groups = groups_of(log)
        if edit == "nothing":
            merge(config, tmp_path / edit / "out", partitions=partitions)
            continue
        again = [groups[at]] * 2 if edit == "twice" else []
        path.write_bytes(with_groups(log, [*groups[:at], *again, *groups[at + 1 :]]))
        with pytest.raises(TransactionMissing if edit == "out" else TransactionTwice) as caught:
            merge(config, tmp_path / edit / "out", partitions=partitions)
        starts = [e.at for e in Log.load(path).events if e.type in GTIDS]
        assert caught.value.file == str(path)
        assert caught.value.position == starts[at if edit == "out" else at + 1]


def _executed_before(path: Path, change: Callable[[GtidSet], GtidSet]) -> None:
    log = Log.load(path)
    at = log.find(PREVIOUS_GTIDS)
    executed = change(GtidSet.parse(log.events[at].body))
    log.changed(at, replace(log.events[at], body=executed.pack())).save(path)


def test_what_was_still_committing_when_the_first_file_began(tmp_path: Path) -> None:
    """Its GTID is not yet among those executed before the first file, and is among those before the second."""
    config = copy_case(ROTATION, tmp_path)
    paths = files_of(config, "dn-1")
    last = list(Log.load(paths[0]).events)[list(Log.load(paths[0]).groups())[-1][0]]
    gtid = GtidSet.of([(last.body[1:17], "", n := int.from_bytes(last.body[17:25], "little"), n + 1)])
    for path in paths[:1]:
        path.unlink()
    _executed_before(paths[1], lambda executed: executed.minus(gtid))
    try:
        result = merge(config, tmp_path / "out")
    except MergeError as error:  # without its first file the case lacks what it needs
        assert not isinstance(error, TransactionMissing | TransactionTwice), error
    else:
        assert not [w for w in result.warnings if "its logs have no" in w]


def test_gtids_too_scattered_to_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once; the merge goes on, and sequence numbers still tell."""
    monkeypatch.setattr("binlog_merge.pipeline.assemble.checkpoints.MOST_KEPT", 0)
    config = copy_case(ROTATION, tmp_path)
    path = files_of(config, "dn-2")[-1]
    data = path.read_bytes()
    path.unlink()
    result = merge(config, tmp_path / "out", end_of_input=False)
    assert len([w for w in result.warnings if "so scattered" in w]) == 2
    log = Log.load(data)
    path.write_bytes(with_groups(log, groups_of(log)[1:]))
    assert isinstance(stopped(config, tmp_path / "out", ROTATION), TransactionMissing)
    path.write_bytes(data)
    assert not merge(config, tmp_path / "out").warnings
    assert written(tmp_path / "out") == whole(ROTATION / "cluster.yaml")


def test_what_was_warned_of_is_not_told_again(tmp_path: Path) -> None:
    """A transaction that two nodes have, merged twice by the user's word: later runs go on, whatever they are told."""
    config = copy_case(case_named("two-nodes"), tmp_path)
    one, two = files_of(config)
    first, second = Log.load(one), Log.load(two)
    groups = groups_of(second)
    two.write_bytes(with_groups(second, [*groups, renumbered(groups_of(first)[0], len(groups) + 1)]))
    strict = config.read_text()
    result = warned(config, tmp_path / "out", end_of_input=False)
    assert len([w for w in result.warnings if "log-doubts" in w and "node dn-1 too" in w]) == 1
    assert not [w for w in merge(config, tmp_path / "out", end_of_input=False).warnings if "log-doubts" in w]
    config.write_text(strict)
    merge(config, tmp_path / "out")
