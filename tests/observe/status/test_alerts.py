"""Each alarm of deploy/prometheus/rules.yaml fires at the fault that it is for, in Prometheus' own evaluation.

What is scraped is what the program says of real outputs, processes and disks, before and while the fault is there.
"""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import count, islice
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from binlog_merge.cli.child import Component
from binlog_merge.cli.status_text import lines_of
from binlog_merge.cli.supervisor import Notice, Policy, Supervisor
from binlog_merge.files.disk import ROOM
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.files.state_notes import NOTES_FOLDER, write_state_note
from binlog_merge.observe.status.metrics import METRICS
from binlog_merge.observe.status.observer import Observer
from binlog_merge.observe.status.server import StatusServer, check_descriptors
from binlog_merge.observe.status.values import ComponentStatus, LeaseStatus, Status
from snapshot_store.server import ServerAddress
from tests.binlog_server.running import Running, caught_up, from_position, replica_of, serving
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.tables import begin_as
from tests.mysql_server import MySqlServer
from tests.observe.status.evaluated import PROMTOOL, RULES, fired, needs_promtool, scraped
from tests.observe.status.looking import Cluster, codes, eventually, merged
from tests.small_disk import small_disk

CASE, HELD = "three-nodes-online-ddl", "three-nodes-commit-order"
BEFORE = 10
"""How many scrapes there are before a fault."""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return merged(CASE, tmp_path)


@needs_promtool
def test_the_rules_are_valid_and_name_metrics_that_there_are() -> None:
    done = subprocess.run([str(PROMTOOL), "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_none_fires_while_all_is_well(cluster: Cluster, tmp_path: Path) -> None:
    assert fired([scraped(cluster.look())] * 130, tmp_path) == set()


@needs_promtool
def test_run_is_gone(cluster: Cluster, tmp_path: Path) -> None:
    """Its page is asked over HTTP; then it has ended, and all its series are stale."""

    def ask(url: str) -> str | None:
        try:
            with urlopen(url, timeout=60) as answer:
                return str(answer.read().decode())
        except URLError:
            return None

    with StatusServer(cluster.config, cluster.out, "0") as server:
        url = f"{server.url}metrics"
        well = ask(url)
    assert well is not None
    gone = ask(url)
    assert gone is None
    assert fired([well] * BEFORE + [gone] * 4, tmp_path) == {"BinlogMergeGone"}


@needs_promtool
def test_the_log_is_behind(tmp_path: Path) -> None:
    status = merged(HELD, tmp_path, end_of_input=False).look()
    assert fired([scraped(status)] * 12, tmp_path) == {"BinlogMergeUnhealthy", "BinlogMergeLags"}


def _note(cluster: Cluster, readers: int, at: float | None = None) -> None:
    state = cluster.look().merged
    assert state is not None and state.end is not None
    one = {"peer": "10.0.0.1:1", "host": "", "since": 0, "waiting": True, "file": state.end.file,
           "position": state.end.position}  # fmt: skip
    all_of_them = [{**one, "server_id": n, "uuid": f"u{n}"} for n in range(readers)]
    values = {"host": "h", "port": 3307, "since": 0, "readers": all_of_them}
    write_state_note(cluster.out / NOTES_FOLDER / "serve-h-3307.json", values if at is None else {**values, "at": at})


@needs_promtool
def test_serve_is_away(cluster: Cluster, tmp_path: Path) -> None:
    _note(cluster, 2)
    well = cluster.look()
    _note(cluster, 2, at=time.time() - 60)
    away = cluster.look()
    assert well.healthy and codes(away) == {"serve-silent"} and not away.healthy
    fires = fired([scraped(well)] * BEFORE + [scraped(away)] * 4, tmp_path)
    assert fires == {"BinlogMergeUnhealthy"}


@needs_promtool
def test_a_reader_is_gone(cluster: Cluster, tmp_path: Path) -> None:
    _note(cluster, 2)
    well = scraped(cluster.look())
    _note(cluster, 1)
    assert fired([well] * BEFORE + [scraped(cluster.look())] * 12, tmp_path) == {"BinlogMergeReaderGone"}


class _Watched:
    """A supervisor of one component, looked at whenever it says something."""

    def __init__(self, cluster: Cluster, program: str) -> None:
        self.statuses: list[Status] = []
        component = Component("merge", (sys.executable, "-c", program))
        policy = Policy(first_pause=0.01, longest_pause=0.01, settled=1e9)
        self.supervisor = Supervisor([component], lambda name, line: None, self._notice, 60, policy)
        self._observer = Observer(cluster.config, cluster.out, None, self._components)

    def _components(self) -> tuple[ComponentStatus, ...]:
        return tuple(ComponentStatus(**asdict(one)) for one in self.supervisor.standing())

    def _notice(self, notice: Notice) -> None:
        if notice.event == "ended":
            self.statuses.append(self._observer.look())
            if len(self.statuses) == 6:
                self.supervisor.stop(143)


@needs_promtool
def test_a_component_ends_again_and_again(cluster: Cluster, tmp_path: Path) -> None:
    watched = _Watched(cluster, "import sys; sys.exit(31)")
    watched.supervisor.run()
    last = watched.statuses[-1]
    assert codes(last) == {"component-away"} and not last.healthy
    assert "merge ended with exit code 31 (io), 6 times in a row" in last.problems[0].text
    fires = fired([scraped(cluster.look()), *map(scraped, watched.statuses)], tmp_path)
    assert fires == {"BinlogMergeUnhealthy", "BinlogMergeRestarts"}


@needs_promtool
def test_the_disk_is_full(tmp_path: Path) -> None:
    """Then capture and serve cannot write their notes, and are not said to be dead."""
    with small_disk(tmp_path / "disk") as disk:
        cluster = merged(CASE, disk)
        _note(cluster, 1, at=time.time() - 60)
        room = cluster.look()
        with (disk / "ballast").open("wb") as ballast:
            for _ in range(3):
                ballast.write(bytes(9 << 20))
        full = cluster.look()
    assert codes(room) == {"serve-silent"}
    assert codes(full) == {"disk-full"} and "the disk with the merged log is full" in full.problems[0].text
    fires = fired([scraped(room)] * 3 + [scraped(full)] * 12, tmp_path)
    assert "BinlogMergeUnhealthy" in fires
    assert [disk.free_bytes < ROOM for disk in full.disks] == [True]


@needs_promtool
def test_a_disk_fills(tmp_path: Path) -> None:
    """There is still room for all that is done: nothing is wrong yet."""
    with small_disk(tmp_path / "disk", 200) as disk:
        cluster = merged(CASE, disk)
        room = cluster.look()
        with (disk / "ballast").open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, room.disks[0].free_bytes - (18 << 20))
        little = cluster.look()
    assert room.healthy and codes(little) == set()
    fires = fired([scraped(room)] * BEFORE + [scraped(little)] * 12, tmp_path)
    assert fires == {"BinlogMergeDiskFills"}


@needs_promtool
def test_a_reader_lags(tmp_path: Path) -> None:
    """A client of a real serve that does not read what it has asked for, and was published two minutes ago."""
    cluster = merged("large-blobs", tmp_path)
    long_ago = time.time() - 120
    os.utime(cluster.out / MANIFEST_NAME, (long_ago, long_ago))
    with serving(cluster.out) as serve, StatusServer(cluster.config, cluster.out, "0") as page:
        assert eventually(lambda: len(page.status().serves) == 1)
        well = page.status()
        for listener in serve.server._listeners:  # the system holds up to 4 MB for a client that does not read
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with serve.reading(from_position(), buffer=4096) as events:
            next(events)
            assert eventually(lambda: codes(page.status()) == {"reader-late"})
            with urlopen(f"{page.url}metrics", timeout=60) as answer:
                late = str(answer.read().decode())
    assert fired([scraped(well)] * BEFORE + [late] * 12, tmp_path) == {"BinlogMergeReaderLags"}


@needs_promtool
@pytest.mark.mysql
def test_a_replica_that_has_stopped_with_1062_is_told_from_one_that_applies(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    """It goes on fetching, and was sent everything: so it is asked itself."""
    cluster = merged("two-nodes", tmp_path)
    begin_as(case_named("two-nodes"), mysql_server)
    address = ServerAddress.parse(f"mysql://root@localhost/?socket={mysql_server.socket}")
    nobody = ServerAddress("127.0.0.1", 1)
    statuses: dict[str, Status] = {}
    with serving(cluster.out, replicas=(address, nobody)) as serve:
        page = cluster.observer()

        def seen(number: int) -> bool:
            statuses["last"] = page.look()
            found = [one for each in statuses["last"].serves for one in each.replicas if one.applies is not None]
            return [(one.applies, one.error) for one in found] == [(not number, number)]

        with replica_of(mysql_server, serve, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"):
            caught_up(mysql_server, cluster.out)
            assert eventually(lambda: seen(0))
            well = statuses["last"]
            file, position = _last_insert(serve)
            mysql_server.execute("STOP REPLICA; RESET BINARY LOGS AND GTIDS")
            mysql_server.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION=0, SOURCE_LOG_FILE='{file}', "
                f"SOURCE_LOG_POS={position}; START REPLICA"
            )
            assert eventually(lambda: seen(1062))
            stopped = statuses["last"]
            assert [reader.behind_bytes for reader in stopped.serves[0].readers] == [0]
    assert codes(well) == {"replica-unknown"} and "cannot be asked" in well.problems[0].text
    assert codes(stopped) == {"replica-stopped", "replica-unknown"} and stopped.healthy
    said = next(problem.text for problem in stopped.problems if problem.code == "replica-stopped")
    assert "error 1062: " in said and str(address) in said
    assert any("STOPPED, error 1062: " in line for line in lines_of(stopped))
    fires = fired([scraped(well)] * BEFORE + [scraped(stopped)] * 4, tmp_path)
    assert fires == {"BinlogMergeReplicaStopped"}


def _last_insert(serve: Running) -> tuple[str, int]:
    """Return where the last transaction that inserts begins."""
    file = str(serve.query("SHOW BINARY LOGS")[-1][0])
    begins, found = 0, 0
    for _, position, kind, *_ in serve.query(f"SHOW BINLOG EVENTS IN '{file}'"):
        begins = position if kind == "Gtid" else begins
        found = begins if kind == "Write_rows" else found
    return file, found


@needs_promtool
def test_a_ddl_waits(cluster: Cluster, tmp_path: Path) -> None:
    note = cluster.out / NOTES_FOLDER / "merge.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "locks": 1, "waiting": 66}))
    status = cluster.look()
    assert codes(status) == {"ddl-waits"} and status.healthy
    assert fired([scraped(status)] * 40, tmp_path) == {"BinlogMergeDdlWaits"}


@needs_promtool
def test_descriptors_are_used_up(cluster: Cluster, tmp_path: Path) -> None:
    """What cannot be looked at is not said to be damaged; and the page shows that it is old."""
    with StatusServer(cluster.config, cluster.out, "0") as server:
        well = server.status()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
        fifth = next(islice((number for number in count() if number not in used), 4, None))  # numbers may have gaps
        resource.setrlimit(resource.RLIMIT_NOFILE, (fifth, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                check_descriptors()
            assert eventually(lambda: codes(server.status()) != set())
            used_up = server.status()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert codes(used_up) == {"status-failed"} and "Too many open files" in used_up.problems[0].text
        assert eventually(lambda: codes(server.status()) == set())
    fires = fired([scraped(well)] * 3 + [scraped(used_up)] * 5, tmp_path, old=[30.0 * n for n in range(1, 6)])
    assert fires == {"BinlogMergeUnhealthy", "BinlogMergeStatusIsOld"}


def test_the_rules_name_metrics_that_there_are_and_each_is_tested() -> None:
    known: Mapping[str, tuple[str, ...]] = {metric.name: metric.labels for metric in METRICS}
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    for rule in rules:
        words = set(rule["expr"].replace("(", " ").replace(")", " ").replace("[", " ").split())
        names = {word for word in words if word.startswith("binlog_merge_")}
        assert names <= set(known) and (names or "up{" in rule["expr"])
    assert {rule["alert"] for rule in rules} == set(re.findall(r'"(BinlogMerge\w+)"', Path(__file__).read_text()))


@needs_promtool
def test_nobody_leads(cluster: Cluster, tmp_path: Path) -> None:
    status = cluster.look()
    held = LeaseStatus("a-1", 3, 10.0, "", True, False, 1.0, True, None, ("b-1",))
    gone = replace(held, held=False, released=False, age_seconds=40.0)
    leading, alone = (scraped(replace(status, lease=lease)) for lease in (held, gone))
    assert "BinlogMergeNoLeader" not in fired([leading] * BEFORE, tmp_path)
    assert "BinlogMergeNoLeader" in fired([*[leading] * BEFORE, *[alone] * 3], tmp_path)
