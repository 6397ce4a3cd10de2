"""Switches that are asked of captures that are running, without servers."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from binlog_merge.errors import IoError, ManifestError, MergeError, OutputBusy, ServerRefused, UnsupportedInput
from binlog_merge.files.lock import OutputLock
from binlog_merge.node_capture.servers import NodeServers
from binlog_merge.node_capture.switch_request import answer, ask, pending_request
from snapshot_store.server import ServerAddress

NODES = ("dn-1", "dn-2")


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    for node in NODES:
        (tmp_path / node).mkdir()
    return {node: tmp_path / node for node in NODES}


@pytest.fixture
def running(folders: dict[str, Path]) -> Iterator[None]:
    """Hold the nodes' folders as a capture does, switch dn-1, and refuse that of dn-2."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.01):
            for node, values in zip(NODES, ({"server": "b"}, {"refused": "it lacks what was captured"}), strict=True):
                if (asked := pending_request(folders[node])) is not None:
                    answer(folders[node], asked, values)

    thread = threading.Thread(target=look)
    with ExitStack() as stack:
        for folder in folders.values():
            stack.enter_context(OutputLock(folder, "capture"))
        thread.start()
        yield
        ended.set()
        thread.join()


@pytest.mark.usefixtures("running")
def test_what_was_switched_before_one_was_refused_is_told(folders: dict[str, Path]) -> None:
    assert ask(folders, {"dn-1": "mysql://b"}, 60) == {"dn-1": {"server": "b"}}
    with pytest.raises(ServerRefused, match="it lacks what was captured") as caught:
        ask(folders, {"dn-2": "mysql://b"}, 60)
    assert caught.value.remedy == "nothing was switched: the capture goes on"
    with pytest.raises(ServerRefused, match="it lacks what was captured") as caught:
        ask(folders, {"dn-1": "mysql://b", "dn-2": "mysql://b"}, 60)
    assert caught.value.node == "dn-2"
    assert caught.value.remedy.startswith("dn-1 switched before that, and stays so; of dn-2: nothing was switched")
    assert not [path for folder in folders.values() for path in folder.glob(".switch*")]


def test_nobody_is_asked_where_nothing_is_running(folders: dict[str, Path]) -> None:
    with pytest.raises(OutputBusy, match="none of dn-1"):
        ask(folders, {"dn-1": "mysql://b"}, 60)
    assert not (folders["dn-1"] / ".switch.json").exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [(ServerRefused("x"), True), (UnsupportedInput("x"), True), (IoError("x"), False), (ManifestError("x"), False)],
)
def test_only_what_changed_nothing_is_a_refusal(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, error: MergeError, told: bool
) -> None:
    """A capture that could not note the switch ends: it does not know whether the next one will find it."""
    folder = folders["dn-1"]
    servers = NodeServers("dn-1", [ServerAddress.parse("mysql://127.0.0.1:1")], folder, None)

    def failing(address: ServerAddress) -> None:
        assert address.host == "b"
        raise error

    monkeypatch.setattr(servers, "_switch", failing)
    found: list[MergeError | None] = []

    def capture() -> None:
        with OutputLock(folder, "capture"):
            locked.set()
            while (asked := pending_request(folder)) is None:
                pass
            try:
                assert servers._switched(asked) is None
                found.append(None)
            except MergeError as raised:
                found.append(raised)

    locked = threading.Event()
    thread = threading.Thread(target=capture)
    thread.start()
    locked.wait()
    with pytest.raises(ServerRefused) as caught:
        ask(folders, {"dn-1": "mysql://b"}, 60 if told else 1)
    thread.join()
    assert found == [None if told else error]
    assert ("has not answered" in caught.value.message) is not told
