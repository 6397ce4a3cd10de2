"""One life, many readers: each is judged by what the shards hold, and by what it tells of a plain MySQL in that life.

The result is what docs/reference/tested.md shows: tools/tested.py makes it of the file that is written here.
"""

import contextlib
import dataclasses
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.clients.life.judging import PASSED, rows_wrong
from tests.clients.life.kinds import KINDS, version_of
from tests.clients.life.readers import Change, Kind, Program, Reader, Replica
from tests.clients.life.sides import Plain, Shards, Side
from tests.clients.life.story import ADDED, ADDED_DEFAULT, PHASES, SHARDS
from tests.mysql_server import ROOT
from tests.patience import Patience

pytestmark = [pytest.mark.clients, pytest.mark.mysql, pytest.mark.mariadb]
RESULT: Final = ROOT / "build" / "tested.json"
NOT_APPLICABLE: Final = "not applicable"


@dataclass
class Played:
    """What readers have told of a life on one side; `fell` says in which phase one was given up, and why."""

    tables: Mapping[str, Any] = field(default_factory=dict)
    changes: dict[str, list[Change]] = field(default_factory=dict)
    held: dict[str, list[bool]] = field(default_factory=dict)
    fell: dict[str, tuple[int, str]] = field(default_factory=dict)


def play(side: Side, readers: Sequence[Reader]) -> Played:
    """Let readers follow a side from its beginning to its end."""
    played = Played(held={reader.kind.name: [] for reader in readers})
    up = list(readers)

    def wait(phase: int, again: bool) -> None:
        """Wait until all have come to the end of a phase; give up those who do not."""
        wanted = {phase * SHARDS + shard for shard in range(SHARDS)}
        patience, waiting = Patience(45), list(up)
        while waiting:
            for reader in list(waiting):
                if wanted <= reader.marks() if phase >= 0 else reader.has_begun():
                    waiting.remove(reader)
                elif not reader.running() and again:
                    reader.start()
                elif not reader.running() or not patience.lasts():
                    print(side.name, phase, reader.kind.name, reader.said(), flush=True)
                    why = "it ended" if not reader.running() else "it did not get there"
                    played.fell[reader.kind.name] = (phase, f"{why}: {reader.said()}")
                    reader.kill()
                    waiting.remove(reader)
                    up.remove(reader)
            time.sleep(0.5)

    def stopped(then: Any) -> Any:
        def during() -> None:
            for reader in up:
                reader.kill()
            then()
            for reader in up:
                reader.start()

        return during

    def take_over() -> None:
        for reader in up:
            reader.second = True

    during = {
        "restart": stopped(lambda: None),
        "serve restart": side.restart,
        "purge": stopped(side.purge),
        "failover": stopped(take_over),
    }
    for reader in readers:
        reader.start()
    wait(-1, False)
    for number, phase in enumerate(PHASES):
        print(side.name, phase, time.strftime("%X"), flush=True)
        if phase == "purge":
            side.keep_from_here()
        side.story.play(phase, during.get(phase, lambda: None))
        wait(number, again=phase in ("serve restart", "failover"))
        tables = side.story.tables()
        for reader in up:
            if isinstance(reader, Replica):
                played.held[reader.kind.name].append(reader.tables() == tables)
    for reader in up:
        if isinstance(reader, Program):
            played.changes[reader.kind.name] = reader.changes()
    played.tables = side.story.tables()
    return played


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """Play the life twice, and judge each reader; write down what came of it."""
    chosen = os.environ.get("LIFE_READERS")
    kinds = [kind for kind in KINDS if chosen is None or any(part in kind.name for part in chosen.split(","))]
    home = tmp_path_factory.mktemp("life")
    found: dict[str, dict[str, str]] = {}
    sides: dict[str, Played] = {}
    for name, kind_of_side in (("mysql", Plain), ("serve", Shards)):
        (home / name).mkdir()
        with contextlib.ExitStack() as stack:
            side = stack.enter_context(kind_of_side.started(home / name))
            readers = []
            for number, kind in enumerate(kinds):
                if side.mariadb is None and kind.name.startswith("MariaDB"):
                    continue
                readers.append(kind.make(kind, side, home / name / f"reader-{number}"))
                stack.callback(readers[-1].end)
            sides[name] = play(side, readers)
    for kind in kinds:
        found[kind.name] = judged(kind, sides["serve"], sides["mysql"])
    versions = {kind.name: version_of(kind) for kind in kinds}
    told = {name: {"version": versions[name], **aspects} for name, aspects in found.items()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "readers": told}, indent=1, ensure_ascii=False))
    yield found


def judged(kind: Kind, ours: Played, control: Played) -> dict[str, str]:
    """Return of each aspect whether it passed, or what was wrong."""
    found = {"snapshot": NOT_APPLICABLE}
    if kind.name in ours.changes and kind.name in control.changes:
        mine, theirs = (_told(played.changes[kind.name]) for played in (ours, control))
        if kind.snapshot:
            found["snapshot"] = _compared(mine["snapshot"], theirs["snapshot"])
        found |= {phase: _compared(mine[phase], theirs[phase]) for phase in PHASES}
        found["rows"] = rows_wrong(ours.changes[kind.name], ours.tables)
        return found
    fell, why = ours.fell.get(kind.name, (len(PHASES), ""))
    theirs_fell, theirs_why = control.fell.get(kind.name, (len(PHASES), ""))
    held = ours.held[kind.name]
    for number, phase in enumerate(PHASES):
        if number >= fell:
            found[phase] = f"failed: {why}" if number == max(fell, 0) else "failed: it had been given up"
        elif number < len(held):
            found[phase] = PASSED if held[number] else "failed: other rows than the shards"
        else:
            found[phase] = "not compared"
        if number >= theirs_fell:
            found[phase] += f"; at MySQL it failed: {theirs_why}" if number == theirs_fell else "; not at MySQL"
    if kind.snapshot:
        found["snapshot"] = PASSED if fell >= 0 else f"failed: {why}"
    found["rows"] = PASSED if held and held[-1] and fell == len(PHASES) else "failed"
    return found


def _told(changes: Sequence[Change]) -> dict[str, Any]:
    """Return what a reader has told, by phase: the changes of each shard's ids in their order."""
    found: dict[str, Any] = {phase: [[] for _ in range(SHARDS)] for phase in PHASES}
    found["snapshot"] = Counter(repr(_filled(change)) for change in changes if change.op == "r")
    ended = [-1] * SHARDS
    for change in changes:
        shard = change.id % SHARDS
        if change.op == "r":
            continue
        if change.table == "shop.marks":
            ended[shard] = change.id // SHARDS
        phase = ended[shard] + (change.table != "shop.marks")  # what comes behind the last mark is odd, and in the last
        found[PHASES[min(phase, len(PHASES) - 1)]][shard].append(_filled(change))
    return found


def _filled(change: Change) -> Change:
    """Return a change without the default of the column that a DDL adds: who has it depends on the moment."""
    images = (
        image and {name: value for name, value in image.items() if (name, value) != (ADDED, ADDED_DEFAULT)}
        for image in (change.before, change.after)
    )
    before, after = images
    return dataclasses.replace(change, before=before, after=after)


def _compared(mine: Any, theirs: Any) -> str:
    if mine == theirs:
        return PASSED if mine else "failed: nothing was told"
    if isinstance(mine, Counter):
        return f"failed: {mine - theirs} is told of the shards alone, {theirs - mine} of MySQL alone"
    for shard, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            if a != b:
                return f"failed: shard {shard}, change {number}: {a} of the shards, {b} of MySQL"
    return f"failed: {[*map(len, mine)]} changes of the shards, {[*map(len, theirs)]} of MySQL"


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_a_life(name: str, results: dict[str, dict[str, str]]) -> None:
    wrong = {aspect: what for aspect, what in results[name].items() if what not in (PASSED, NOT_APPLICABLE)}
    assert not wrong, wrong
