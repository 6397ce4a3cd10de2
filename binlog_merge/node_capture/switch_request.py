"""A switch that is asked of a capture that is running: a file beside the captured files, for one answer.

    captured/dn-1/.switch.json   {"version": 1, "id": …, "server": "mysql://capture@10.0.0.2", "until": 1790000060.0}

The capture that holds the directory's lock takes it, and replaces the file with one that also has `answer`: the server
that has the node now, or why nothing was switched. Who asked removes it. It counts until the time at which who asked
gives up, so that one that was forgotten switches nothing later on.
"""

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import MergeError, OutputBusy, ServerRefused
from binlog_merge.files.lock import OutputLock
from binlog_merge.whole_files import NoteKind, write_note

REQUEST_NAME: Final = ".switch.json"
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class SwitchRequest:
    """A switch that is asked for. `server` is the URL; `until` in seconds since 1970; `answer` is None before there is
    one: {"server": …, "server_uuid": …, "folder": …, "begins_in": …} or {"refused": …}.
    """

    id: str
    server: str
    until: float
    answer: Mapping[str, Any] | None = None


def pending_request(directory: Path) -> SwitchRequest | None:
    """Return the switch that is asked for and not answered yet. What is damaged, or too old, is none."""
    found = _read(directory)
    return found if found is not None and found.answer is None and time.time() < found.until else None


def answer(directory: Path, asked: SwitchRequest, values: Mapping[str, Any]) -> None:
    """Answer a switch, unless who asked has given up. Raises IoError."""
    now = _read(directory)
    if now is not None and now.id == asked.id:
        _write(directory, SwitchRequest(asked.id, asked.server, asked.until, values))


def ask(directories: Mapping[str, Path], servers: Mapping[str, str], seconds: float) -> dict[str, Mapping[str, Any]]:
    """Ask the captures that hold the nodes' directories to switch to these servers; return what they answer.

    Raises OutputBusy if none of a node's own holds its directory, ServerRefused for what is not switched; nodes before
    that one have switched then.
    """
    for node, url in servers.items():
        if not _is_locked(directories[node]):
            raise OutputBusy(
                f"a capture of other nodes is running, and none of {node}, which could switch to {url}",
                remedy=f"give --node {node}, too",
            )
    done: dict[str, Mapping[str, Any]] = {}
    for node, url in servers.items():
        try:
            done[node] = _ask_one(node, directories[node], url, seconds)
        except MergeError as error:
            if done:
                error.remedy = f"{', '.join(done)} switched before that, and stays so; of {node}: {error.remedy}"
            raise
    return done


def _ask_one(node: str, directory: Path, url: str, seconds: float) -> Mapping[str, Any]:
    until = time.time() + min(seconds, 86400.0)
    asked = SwitchRequest(uuid.uuid4().hex, url, until)
    _write(directory, asked)
    try:
        while time.time() < until:
            found = _read(directory)
            if found is None or found.id != asked.id:
                raise ServerRefused("another switch was asked for meanwhile", node=node, remedy="ask again")
            if found.answer is not None:
                if (reason := found.answer.get("refused")) is not None:
                    raise ServerRefused(str(reason), node=node, remedy="nothing was switched: the capture goes on")
                return found.answer
            time.sleep(_LOOK_SECONDS)
    finally:
        found = _read(directory)
        if found is not None and found.id == asked.id:
            with suppress(OSError):
                (directory / REQUEST_NAME).unlink(missing_ok=True)
    raise ServerRefused(
        f"the capture that is running has not answered within {seconds:g} s",
        node=node,
        remedy="look at its log; or stop it, and run this again",
    )


def _is_locked(directory: Path) -> bool:
    try:
        with OutputLock(directory, "capture"):
            return False
    except OutputBusy:
        return True


_KIND: Final = NoteKind(SwitchRequest)


def _read(directory: Path) -> SwitchRequest | None:
    try:
        return _KIND.parse((directory / REQUEST_NAME).read_bytes())
    except (OSError, ValueError):
        return None


def _write(directory: Path, asked: SwitchRequest) -> None:
    """Replace the file; nobody else may read it, as the URL may hold a password. Raises IoError."""
    write_note(directory / REQUEST_NAME, _KIND, asked, mode=0o600, writer=asked.id)
