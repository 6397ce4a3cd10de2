"""A log whose first files are removed while it is served: views go on, and readers are told as MySQL tells them."""

from itertools import takewhile
from pathlib import Path
from unittest import mock

import pytest

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.log import DumpRequest, NotServed, PublishedLog
from binlog_merge.binlog_server.stream import AtEnd, Events, Opened, stream
from binlog_merge.errors import InternalError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.removal import before_file, remove
from tests.binlog_server.merged import merged_copy
from tests.binlog_server.running import serving, without


def _purge(out: Path, name: str) -> None:
    manifest = Manifest.load(out)
    remove(out, manifest, before_file(manifest.state, name), {})


def test_readers_of_a_log_that_is_purged(tmp_path: Path) -> None:
    out = merged_copy("two-nodes", tmp_path)
    log = PublishedLog(out)
    names = [file.name for file in log.view().files]
    ranks = [file.last_rank for file in log.view().files]
    reading, left = stream(log, DumpRequest(names[1], 4)), stream(log, DumpRequest(names[0], 4))
    assert next(reading) == Opened(names[1], 4) and next(left) == Opened(names[0], 4)
    assert isinstance(next(left), Events)
    _purge(out, names[1])
    log.refresh()
    view = log.view()
    assert [file.name for file in view.there] == names[1:]
    assert str(view.purged).endswith(f":1-{ranks[0]}" if ranks[0] > 1 else ":1")
    assert view.executed.contains_set(view.purged)
    items = []
    for item in reading:
        items.append(item)
        if isinstance(item, AtEnd):
            break
    assert [item.file for item in items if isinstance(item, Opened)] == names[2:], "it goes on over the same files"
    assert next(stream(log, DumpRequest("", 4, view.purged))) == Opened(names[1], 4)
    missing = rf"purged required binary logs.*missing transactions are '[0-9a-f-]+:1(-{ranks[0]})?'"
    unknown = "Could not find first log file name in binary log index file"
    for start, words in ((DumpRequest("", 4, GtidSet()), missing), (DumpRequest(names[0], 4), unknown)):
        with pytest.raises(NotServed, match=words):
            next(stream(log, start))
    assert isinstance(next(left), Events), "what is open is read to its end"
    assert next(item for item in left if isinstance(item, Opened)) == Opened(names[1], 4)
    _purge(out, names[-1])
    log.refresh()
    assert (log.view().name(log.view().first), log.view().purged_rank) == (names[-1], ranks[-2])
    assert log.view().end == (names[-1], log.view().files[-1].size) or log.view().files[-1].closed


def test_a_file_is_not_looked_for_once_for_each_other(tmp_path: Path) -> None:
    """A log of hundreds of files would cost a reader more for that than for all bytes."""
    out = merged_copy("two-nodes", tmp_path)
    log = PublishedLog(out)
    names = [file.name for file in log.view().files]
    with mock.patch.object(LogFolder, "is_there", autospec=True, side_effect=LogFolder.is_there) as looked:
        opened = [item.file for item in takewhile(lambda i: not isinstance(i, AtEnd),
                  stream(log, DumpRequest(names[0], 4)))
                  if isinstance(item, Opened)]  # fmt: skip
        assert opened == names and {call.args[1].name for call in looked.call_args_list} == {names[0]}
    (out / names[0]).unlink()
    assert [file.name for file in log.view().there] == names[1:]


def test_what_is_asked_of_a_log_of_which_more_is_removed_than_left(tmp_path: Path) -> None:
    out = merged_copy("two-nodes", tmp_path)
    whole = PublishedLog(out).view()
    names = [file.name for file in whole.files]
    assert len(names) > 2, "else no more can be removed than is left"
    with serving(out) as before:
        asked = dict(before.query("SHOW VARIABLES"))
    for first in names:
        _purge(out, first)
        left = names[names.index(first) :]
        with serving(out) as running:
            purged = str(PublishedLog(out).view().purged)
            now = dict(running.query("SHOW VARIABLES"))
            moved = {name for name in asked if now[name] != asked[name]}
            assert moved <= {"gtid_purged", "port", "report_port", "timestamp"}
            assert (now["gtid_purged"], now["log_bin_basename"]) == (purged, str(out / "binlog"))
            assert running.query("SELECT @@global.gtid_purged, @@log_bin") == [(purged, 1)]
            assert [row[0] for row in running.query("SHOW BINARY LOGS")] == left
            assert running.query("SHOW BINARY LOG STATUS")[0][:2] == whole.end
            assert running.query(f"SHOW BINLOG EVENTS IN '{left[0]}' LIMIT 1")[0][:2] == (left[0], 4)
            assert running.query("SHOW BINLOG EVENTS LIMIT 1")[0][:2] == (left[0], 4)
            assert running.events(without(PublishedLog(out).view().purged))
            assert not [line for line in running.reports if "error" in line]
    with pytest.raises(InternalError, match="index 0 was removed"):
        PublishedLog(out).view().file(0)
