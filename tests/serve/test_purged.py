"""A log whose first files are removed while it is served: views go on, and readers are told as MySQL tells them."""

from pathlib import Path

import pytest

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.removal import before_file, remove
from binlog_merge.serve.log import PublishedLog
from binlog_merge.serve.place import NotServed, Start
from binlog_merge.serve.stream import AtEnd, Events, Opened, stream
from tests.serve.merged import merged_copy


def _purge(out: Path, name: str) -> None:
    manifest = Manifest.load(out)
    remove(out, manifest, before_file(manifest.state, name), {})


def test_readers_of_a_log_that_is_purged(tmp_path: Path) -> None:
    out = merged_copy("two-nodes", tmp_path)
    log = PublishedLog(out)
    names = [file.name for file in log.view().files]
    ranks = [file.last_rank for file in log.view().files]
    reading, left = stream(log, Start(names[1], 4)), stream(log, Start(names[0], 4))
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
    assert next(stream(log, Start("", 4, view.purged))) == Opened(names[1], 4)
    missing = rf"purged required binary logs.*missing transactions are '[0-9a-f-]+:1(-{ranks[0]})?'"
    unknown = "Could not find first log file name in binary log index file"
    for start, words in ((Start("", 4, GtidSet()), missing), (Start(names[0], 4), unknown)):
        with pytest.raises(NotServed, match=words):
            next(stream(log, start))
    assert isinstance(next(left), Events), "what is open is read to its end"
    assert next(item for item in left if isinstance(item, Opened)) == Opened(names[1], 4)
    _purge(out, names[-1])
    log.refresh()
    assert (log.view().name(log.view().first), log.view().purged_rank) == (names[-1], ranks[-2])
    assert log.view().end == (names[-1], log.view().files[-1].size) or log.view().files[-1].closed
