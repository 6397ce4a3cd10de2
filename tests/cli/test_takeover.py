"""`takeover`, and what `status` says of leads: on keepers of a lease that run beside them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli.status_text import lines_of
from binlog_merge.errors import ConfigError, OutputBusy
from binlog_merge.files.lease import Terms
from binlog_merge.files.lease_keeper import LeaseKeeper, lease_objects
from binlog_merge.files.lease_seen import LeaseWatch, hand_over
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.observe.status.observer import Observer
from binlog_merge.observe.status.server import StatusServer
from tests.command_line import command_line
from tests.observe.status.looking import Cluster, codes, eventually, merged

CASE = "three-nodes-commit-order"
# Long enough that a busy machine keeps it, and short enough to wait for.
LEASE = 6.0


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = merged(CASE, tmp_path)
    found.path.write_text(found.path.read_text() + f"\nha: {{lease: {LEASE}s}}\n")
    return found


@contextmanager
def leading(place: Path, name: str, patient: bool = False) -> Iterator[LeaseKeeper]:
    """Run what a merge is to its lease: it waits, leads, and hands over when it is asked to."""
    stop = threading.Event()
    keeper = LeaseKeeper(lease_objects(str(place), LEASE), Terms(name, LEASE, patient), status=lambda: {"at": 1.0})

    def work() -> None:
        while keeper.leads(stop):
            keeper.ending.wait()
            keeper.release()

    with keeper:
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield keeper
        finally:
            stop.set()
            keeper.ending.set()
            thread.join()


def test_a_handover_ends_when_the_other_leads(cluster: Cluster) -> None:
    out = cluster.out
    command = ["takeover", "-c", str(cluster.path), "--merged", str(out), "-o", "json"]
    assert command_line(command).returncode == 2  # nobody has led
    with leading(out, "a-1") as one:
        assert eventually(lambda: one.epoch == 1)
        refused = command_line(command)
        assert refused.returncode == 25
        assert "nobody waits for the lease that a-1 holds" in refused.stderr
        with leading(out, "b-1", patient=True) as two, leading(out, "c-1", patient=True):
            assert eventually(lambda: len(LeaseWatch(lease_objects(str(out), LEASE)).look().standbys) == 2)  # type: ignore[union-attr]
            refused = command_line([*command, "--to", "d"])
            assert refused.returncode == 25
            assert "d does not wait for the lease that a-1 holds; b-1, c-1 does" in refused.stderr
            done = command_line([*command, "--to", "b-"])
            assert done.returncode == 0, done.stderr
            found = json.loads(done.stdout)
            assert (found["before"], found["holder"], found["epoch"]) == ("a-1", "b-1", 2)
            assert two.epoch == 2


def test_a_holder_that_does_not_hand_over_is_told(tmp_path: Path) -> None:
    with LeaseKeeper(lease_objects(str(tmp_path), LEASE), Terms("a", LEASE)) as one, leading(tmp_path, "b", True):
        assert one.leads(threading.Event())  # and does nothing more
        objects = lease_objects(str(tmp_path), LEASE)
        assert eventually(lambda: bool(standbys(tmp_path)))
        with pytest.raises(OutputBusy, match="a was asked to hand over to b, and has not within 0 s"):
            hand_over(objects, None, 0.3)
    with pytest.raises(ConfigError, match="nobody has a lease"):
        hand_over(lease_objects(str(tmp_path / "other"), LEASE), None, 1)


def standbys(place: Path) -> tuple[str, ...]:
    seen = LeaseWatch(lease_objects(str(place), LEASE)).look()
    assert seen is not None
    return seen.standbys


def pages(server: StatusServer) -> dict[str, tuple[int, Any]]:
    from urllib.error import HTTPError
    from urllib.request import urlopen

    found = {}
    for page in ("live", "leader", "health"):
        try:
            with urlopen(f"{server.url}{page}") as answer:
                found[page] = answer.status, json.loads(answer.read())
        except HTTPError as error:
            found[page] = error.code, json.loads(error.read())
    return found


def test_status_says_who_leads_who_waits_and_that_nobody_does(cluster: Cluster) -> None:
    leads: list[bool | None] = [None]
    observer = Observer(cluster.config, cluster.out, leads=lambda: leads[0])
    assert observer.look().lease is None
    with leading(cluster.out, "a-1") as one:
        assert eventually(lambda: one.epoch == 1)
        with leading(cluster.out, "b-1", patient=True):
            assert eventually(lambda: standbys(cluster.out) == ("b-1",))
            leads[0] = True
            lease = observer.look().lease
            assert lease is not None
            assert (lease.holder, lease.epoch, lease.held, lease.leads) == ("a-1", 1, True, True)
            text = "\n".join(lines_of(observer.look()))
            assert "a-1 (this run) leads, epoch 1 since 2" in text
            assert "b-1 waits" in text
            assert "no-leader" not in codes(observer.look())
    assert eventually(lambda: "no-leader" in codes(observer.look()))
    assert "has released the lease" in "\n".join(lines_of(observer.look()))
    command = ["status", "-c", str(cluster.path), "--merged", str(cluster.out), "-o", "json"]
    done = command_line(command)
    assert done.returncode == 1
    assert json.loads(done.stdout)["lease"]["released"] is True


def test_a_leader_that_is_silent_for_its_time_leads_no_longer(cluster: Cluster) -> None:
    now = [0.0]
    watch = LeaseWatch(lease_objects(str(cluster.out), LEASE), clock=lambda: now[0])
    with leading(cluster.out, "a-1") as one:
        assert eventually(lambda: one.epoch == 1)
        assert watch.look().held  # type: ignore[union-attr]
        one._closed = True
        one._thread.join()
        found = watch.look()
        assert found is not None
        assert found.held
        now[0] += 1.6 * LEASE
        found = watch.look()
        assert found is not None
        assert not found.held
        assert found.age >= 1.5 * LEASE


def test_a_standby_is_healthy_and_no_leader_and_nothing_but_silence_makes_it_dead(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (cluster.path.parent / "nodes").rglob("*"):
        if path.is_file():
            path.unlink()  # they are captured on the other host
    with leading(cluster.out, "a-1") as one:
        assert eventually(lambda: one.epoch == 1)
        with StatusServer(cluster.config, cluster.out, "0", leads=lambda: False) as server:
            found = pages(server)
            assert {page: code for page, (code, _) in found.items()} == {"live": 200, "leader": 503, "health": 200}
            assert found["leader"][1] == {"leads": False, "holder": "a-1"}
            monkeypatch.setattr("binlog_merge.observe.status.server._HANGS", 0.0)
            assert pages(server)["live"][0] == 503
        with StatusServer(cluster.config, cluster.out, "0", leads=lambda: True) as server:
            (cluster.out / MANIFEST_NAME).write_text("damaged\n")  # of which a restart would not make it better
            server.look()
            monkeypatch.setattr("binlog_merge.observe.status.server._HANGS", 300.0)
            assert {page: code for page, (code, _) in pages(server).items()} == {
                "live": 200, "leader": 200, "health": 503,
            }  # fmt: skip


def test_what_a_leader_says_of_its_merge_is_shown_where_nothing_else_does(cluster: Cluster) -> None:
    note = json.loads((cluster.out / ".status" / "merge.json").read_text())
    (cluster.out / ".status" / "merge.json").unlink()
    note["warnings"], note["warnings_count"] = ["a warning"], 1
    keeper = LeaseKeeper(lease_objects(str(cluster.out), LEASE), Terms("elsewhere-1", LEASE), status=lambda: note)
    with keeper:
        assert keeper.leads(threading.Event())
        seen = Observer(cluster.config, cluster.out).look()
        assert seen.warnings == ("a warning",)
        assert all(node.watermark is not None for node in seen.nodes.values())
