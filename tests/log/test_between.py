"""Every way to say a place, at every transaction and DDL of a log, gives the transactions that a plain look gives."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from binlog_merge.ask.unmerged import Unmerged, plan
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.cli.verbs import application
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.files import sidecar
from binlog_merge.log.log import Log
from binlog_merge.log.place import Place, parse_place
from binlog_merge.log.reader import NoLongerInLog
from tests.binlog_server.merged import merged
from tests.effort import effort
from tests.log.places_twin import Asked, Known, Twin, transactions
from tests.merge_e2e.cases import case_named, copy_case, oracle, whole
from tests.merge_e2e.editing import Log as Edited
from tests.merge_e2e.local import merge

CASES: Final = [
    ("three-nodes-online-ddl", "begin"), ("three-nodes-online-ddl", "end"), ("ddl-by-markers", "begin"),
    ("ddl-by-markers", "end"), ("seed-add-column", "begin"), ("seed-add-column", "end"), ("carrier-gtid", "end"),
    ("reshape-strings", "both"), ("gtid-off", "begin"),
]  # fmt: skip
"""Logs with DDL between rows, before them, at the ends of files, one behind the other; with transactions that have no
TSO of their own; with TSOs that carry no time; with keys at their beginning, end, or both; with anonymous GTIDs."""
MOST: Final = effort(12, 60)
"""How many transactions apart from those beside DDL and at the ends of files are asked about."""


@dataclass(frozen=True)
class Logged:
    """A merged log, the cluster that it is of, and the twin of both."""

    out: Path
    unmerged: Unmerged
    twin: Twin

    def some(self) -> list[Known]:
        """Return the transactions that are asked about: all beside DDL or an end of a file, and some of the others."""
        known = self.twin.known
        edges = {i for i, one in enumerate(known) if not one.rows or one.file != known[i - 1].file}
        wanted = {i + by for i in edges for by in (-1, 0, 1)} | set(range(0, len(known), max(1, len(known) // MOST)))
        return [known[i] for i in sorted(wanted | {len(known) - 1}) if 0 <= i < len(known)]

    def asked(self) -> Iterator[tuple[Asked, Place]]:
        for one in self.some():
            for asked in self.twin.around(one):
                yield asked, parse_place("--start", asked.text)


# What is left out has its keys elsewhere.
KEPT: Final = (*CASES[:1], *CASES[3:4], *CASES[6:])


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, marks=() if case in KEPT else pytest.mark.extended) for case in CASES],
    ids="-".join,
)
def logged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Logged:
    name, cts = request.param
    case, folder = case_named(name), tmp_path_factory.mktemp("between")
    size = sum(map(len, whole(case / "cluster.yaml").values())) // 4
    path = copy_case(case, folder / "case", lambda values: values["output"].update({"max-size": size, "cts": cts}))
    merge(path, folder / "out")
    known = transactions(folder / "out", [key for key, _, _ in oracle(case).transactions])
    unmerged = plan(MergeConfig.load(path), end_of_input=True)
    return Logged(folder / "out", unmerged, Twin(Log(folder / "out").cluster_uuid, known))


@pytest.fixture(params=["plain", "sparse"])
def index(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log has a sparse index of small chunks, or none: the answers are the same."""
    if request.param == "sparse":
        monkeypatch.setattr(sidecar, "LEAST_BYTES", 0)
        monkeypatch.setattr("binlog_merge.log.index.CHUNK", 2000)


def stop_of(asked: Asked) -> int:
    return asked.through if asked.form == "gtid" else asked.before


@pytest.mark.usefixtures("index")
def test_every_place_is_what_a_plain_look_gives(logged: Logged) -> None:
    log, count = Log(logged.out), len(logged.twin.known)
    assert sum(not one.rows for one in logged.twin.known) and len(log.files) > 2
    forms: set[str] = set()
    for asked, place in logged.asked():
        forms.add(asked.form)
        assert place.kind == asked.form
        assert log.between(place, None) == (asked.before + 1, count), asked
        assert log.between(None, place) == (1, stop_of(asked)), asked
        assert log.through(place) == asked.through, asked
    assert forms == {"gtid", "gtids", "key", "tso", "time", "position"}


def test_a_cluster_that_is_not_merged_gives_the_same(logged: Logged) -> None:
    log, count = logged.unmerged.log, len(logged.twin.known)
    for asked, place in logged.asked():
        if asked.form == "position":
            with pytest.raises(ConfigError, match="are of a merged log"):
                log.between(place, None)
            continue
        assert log.between(place, None) == (asked.before + 1, count), asked
        assert log.between(None, place) == (1, stop_of(asked)), asked
        assert log.through(place) == asked.through, asked


def answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except NoLongerInLog as error:
        assert "is not in the log any more" in str(error)
        return "removed"


@pytest.mark.usefixtures("index")
def test_what_was_removed_is_said_to_be(logged: Logged, tmp_path: Path) -> None:
    """A place with everything before it among what was removed has no answer; behind that the answers are as before."""
    out = Path(shutil.copytree(logged.out, tmp_path / "out"))
    files = sorted({one.file for one in logged.twin.known})
    assert CliRunner().invoke(application(), ["purge", str(out), "--to", files[2]]).exit_code == 0
    log, count = Log(out), len(logged.twin.known)
    gone = max(one.rank for one in logged.twin.known if one.file < files[2])
    assert log.state.first_rank == gone + 1
    seen = {"removed": 0, "kept": 0}
    for asked, place in logged.asked():
        removed_file = place.file != "" and place.file < files[2]
        # Commit times may be later in front: what of the removed ones was at that time is not known.
        behind = gone + (asked.form == "time" and not logged.twin.timed)
        start = "removed" if asked.before < behind or removed_file else (asked.before + 1, count)
        assert answer(lambda: log.between(place, None)) == start, asked  # noqa: B023
        stop = asked.before < behind or removed_file
        if asked.form in ("gtid", "gtids"):
            stop = asked.through <= gone
        last = "removed" if stop else (gone + 1, stop_of(asked))
        assert answer(lambda: log.between(None, place)) == last, asked  # noqa: B023
        seen["removed" if start == "removed" else "kept"] += 1
    assert all(seen.values())


def test_places_behind_the_end(logged: Logged) -> None:
    """A TSO or a key before which something may be missing begins no range; it ends one, and a time begins one."""
    last, count = logged.twin.known[-1], len(logged.twin.known)
    for log in (Log(logged.out), logged.unmerged.log):
        for text in (str(last.key[0] + 2), f"{last.key[0] + 2:019d}{0:035d}"):
            place = parse_place("--start", text)
            with pytest.raises(OutsideLog, match=f"--start {text} is after the end of the log, .* whole up to TSO"):
                log.between(place, None)
            assert log.between(None, place) == (1, count)
        for text in (str(last.key[0] + 1), "2099-01-01", f"{log.cluster_uuid}:{count + 1}"):
            assert log.between(parse_place("--start", text), None) == (count + 1, count)
        beyond = parse_place("--stop", f"{log.cluster_uuid}:{count + 5}")
        with pytest.raises(OutsideLog, match=f"after the end of the log, which ends with transaction {count}"):
            log.between(beyond, None)
        with pytest.raises(OutsideLog, match="after the end of the log"):
            log.through(beyond)
        assert log.between(None, beyond) == (1, count)
        assert log.between(None, beyond, ahead=True) == (1, count + 5)


def test_a_position_that_is_none_is_refused(logged: Logged) -> None:
    log, one = Log(logged.out), logged.twin.known[1]
    for text, reason in (
        (f"{one.file}:{one.events[1] + 3}", f"is inside an event, which begins at {one.events[1]}"),
        (f"{one.file}:3", "there is no position 3"),
        (f"{one.file}:{10**9}", "there is no position 1000000000"),
        ("binlog.777777:4", "has no file binlog.777777"),
    ):
        for ends in (("start", None), (None, "stop")):
            with pytest.raises((ConfigError, OutsideLog), match=reason):
                log.between(*(name and parse_place(f"--{name}", text) for name in ends))  # type: ignore[misc, arg-type]


def test_a_number_alone_is_a_gtid_of_the_log(logged: Logged) -> None:
    log = Log(logged.out)
    assert log.between(Place.at_gtid("--start-gtid", "007"), None).first == 7
    for text in ("0", "x", "-1", f"{log.cluster_uuid}:0", f"{log.cluster_uuid}:1-2"):
        with pytest.raises(ConfigError, match="is no GTID"):
            Place.at_gtid("--start-gtid", text)
    with pytest.raises(ConfigError, match="no GTID of the set is of this log"):
        strangers = ",".join(f"00000000-0000-0000-0000-00000000000{n}:1-5" for n in (1, 2))
        log.between(parse_place("--start", strangers), None)
    with pytest.raises(ConfigError, match="is another cluster"):
        log.before(Place.at_gtid("--start-gtid", f"{'1' * 8}-1111-1111-1111-{'1' * 12}:1"))


def test_commit_times_need_not_grow(tmp_path: Path) -> None:
    """A range ends before the first transaction that is late enough, in whichever file, as mysqlbinlog ends it."""
    out = Path(shutil.copytree(merged("seed-add-column"), tmp_path / "out"))
    name = sorted(path.name for path in out.glob("binlog.0*"))[1]
    edited = Edited.load(out / name)
    first, _ = next(edited.groups())
    gtid = Gtid.parse(edited.events[first].body)
    late = (gtid.immediate_commit_timestamp or 0) + 10**12
    gtid = replace(gtid, immediate_commit_timestamp=late, original_commit_timestamp=late)
    edited.changed(first, replace(edited.events[first], body=gtid.pack())).save(out / name)
    keys = [key for key, _, _ in oracle(case_named("seed-add-column")).transactions]
    log, known = Log(out), transactions(out, keys)
    twin = Twin(log.cluster_uuid, known)
    assert [one.file for one in known if one.commit_us == late] == [name] and not twin.timed
    for one in known:
        for asked in twin.around(one):
            place = parse_place("--start", asked.text)
            assert log.between(place, None).first == asked.before + 1, asked
            assert log.through(place) == asked.through, asked
