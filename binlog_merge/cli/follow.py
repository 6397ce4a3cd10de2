"""`binlog-merge merge --stop-never`: merges round after round, and says on stdout how far it has come."""

import json
import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any

from binlog_merge.cli.log_lines import say
from binlog_merge.cli.options import LEASE_REMEDY
from binlog_merge.cli.output import (
    OutputFormat,
    ago,
    counted,
    decimal_size,
    document_of,
    print_json,
    printable,
    removal_lines,
)
from binlog_merge.errors import ConfigError
from binlog_merge.heartbeat import CAPTURED, HEARTBEAT, HOLDER
from binlog_merge.redaction import redacted
from snapshot_store.tso import LOGICAL_BITS, OrderKey, carries_time

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.errors import MergeError
    from binlog_merge.files.lease_keeper import Change, LeaseKeeper
    from binlog_merge.spark.job import MergeResult, Pace

LINE_EVERY = 10.0
"""Seconds between the lines that sum up rounds for people."""


def follow(
    spark: Any,
    config: "MergeConfig",
    out: str | Path,
    output: OutputFormat,
    pace: "Pace",
    in_driver: int,
    at_need: bool,
    start_tso: int | None,
    work: Path | None = None,
    standby: bool = False,
) -> None:
    """Merge until SIGTERM or Ctrl-C, which end it after the round that is under way; a second one ends it at once."""
    from binlog_merge.spark.job import follow as follow_job

    stop = Event()
    report = Report(redacted(str(out)), output)
    with _kept_lease(config, out, work, standby) as keeper, _stopped_by_signals(stop, keeper):
        follow_job(
            *(spark, config, out, stop, report, pace),
            in_driver=in_driver,
            at_need=at_need,
            start_tso=start_tso,
            work=work,
            keeper=keeper,
            example=None if keeper is None else _example(),
        )
    report.ended()


def _example() -> Path | None:
    """Return the demo's cluster; None if this installation lacks it."""
    from binlog_merge.cli.example import cluster

    try:
        return cluster()
    except ConfigError:
        return None


@contextmanager
def _kept_lease(
    config: "MergeConfig", out: str | Path, work: Path | None, standby: bool
) -> "Iterator[LeaseKeeper | None]":
    """Yield what waits for the output's lease and keeps it; None if the configuration wants none."""
    from binlog_merge.config.uri import is_uri

    seconds = config.ha.lease_seconds(is_uri(str(out)))
    if seconds is None:
        if standby:
            raise ConfigError("--standby, and there is no lease to wait for", remedy=LEASE_REMEDY)
        yield None
        return
    from binlog_merge.files.lacks import lacks
    from binlog_merge.files.lease import Terms, new_name
    from binlog_merge.files.lease_keeper import LeaseKeeper, lease_objects
    from binlog_merge.files.output import working_folder

    def changed(change: "Change") -> None:
        say(f"binlog-merge: {change.text}", change.event, logging.WARNING if change.wrong else logging.INFO)
        if change.role is not None:
            HEARTBEAT.has_role(change.role)

    terms = Terms(os.environ.get(HOLDER) or new_name(), seconds, standby, config.ha.give_up_after / 1e6)
    folder = working_folder(out, work)
    lacking = partial(lacks, config, folder, CAPTURED in os.environ)
    objects = lease_objects(str(out), seconds)
    with LeaseKeeper(objects, terms, lambda: _merge_note(folder), changed, lacks=lacking) as keeper:
        yield keeper


_LONGEST_NOTE = 64 << 10


def _merge_note(folder: Path) -> Mapping[str, Any]:
    """Return the note of the merge's last round, for who looks at the output from elsewhere; without what is too long.

    It may be missing: nothing depends on it.
    """
    from binlog_merge.errors import IoError, ManifestError
    from binlog_merge.files.state_notes import MERGE_NOTE, NOTES_FOLDER, read_state_note

    try:
        note = read_state_note(folder / NOTES_FOLDER / MERGE_NOTE) or {}
    except (IoError, ManifestError):
        return {}
    if len(json.dumps(note, default=str)) > _LONGEST_NOTE:
        note = {name: value for name, value in note.items() if name not in ("warnings", "waiting_ddl", "open_branches")}
    return {} if len(json.dumps(note, default=str)) > _LONGEST_NOTE else note


@contextmanager
def _stopped_by_signals(stop: Event, keeper: "LeaseKeeper | None" = None) -> Iterator[None]:
    """Set `stop` at the first SIGTERM or SIGINT, which ends what is done under a lease, too; the next ones do what they
    did before.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}

    def set_stop(number: int, frame: FrameType | None) -> None:
        stop.set()
        if keeper is not None:
            keeper.ending.set()
        for each in numbers:
            signal.signal(each, before[each])

    for number in numbers:
        signal.signal(number, set_stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])


@dataclass
class Report:
    """Prints rounds: a line of JSON for each that published, or for people a line that sums up some seconds of them."""

    out: str
    output: OutputFormat
    rounds: int = 0
    transactions: int = 0
    bytes: int = 0
    printed: float = field(default_factory=lambda: -LINE_EVERY)
    _sum: list[int] = field(default_factory=lambda: [0, 0])
    _warned: set[str] = field(default_factory=set)
    _removed: Mapping[str, Any] = field(default_factory=dict)
    _locks: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _last: "MergeResult | None" = None

    def merged(self, result: "MergeResult") -> None:
        """Take the result of a round."""
        self._last = result
        new = [warning for warning in result.warnings if warning not in self._warned]
        self._warned.update(new)
        for warning in new:
            say(f"binlog-merge: {printable(warning)}", warning, logging.WARNING)
        self._say_what_waits({str(lock["id"]): lock for lock in result.locks})
        if result.removed != self._removed:
            self._removed = result.removed
            for line in removal_lines(result.removed):
                say(f"binlog-merge: removed: {printable(line)}", "removed", what=line)
        if result.transactions:
            self.rounds += 1
            self.transactions += result.transactions
            self._sum[0] += result.transactions
            self._sum[1] += result.input_bytes
        if self.output is not OutputFormat.text:
            if result.transactions or result.removed:
                print_json(document_of(merged=self.out, result=result))
        elif time.monotonic() - self.printed >= LINE_EVERY and (self._sum[0] or self.printed < 0):
            self._print()

    def _say_what_waits(self, locks: dict[str, Mapping[str, Any]]) -> None:
        """Say which DDL begins to wait, and for whom, for whom one waits now, and which waits no longer."""
        before, self._locks = self._locks, locks
        for id, lock in locks.items():
            awaited = lock["awaited"]
            if id not in before or awaited != before[id]["awaited"]:
                verb = "waits" if id not in before else "still waits"
                say(
                    f"binlog-merge: {verb} for {', '.join(awaited) or 'nobody'}: {printable(lock['sql'])}",
                    "ddl waits",
                    **lock,
                )
        for id, lock in before.items():
            if id not in locks:
                say(f"binlog-merge: waits no longer: {printable(lock['sql'])}", "ddl waits no longer", **lock)

    def failed(self, error: "MergeError", pause: float) -> None:
        """Say what keeps rounds from their end, and when the next is tried."""
        say(f"binlog-merge: {error}; tried again in {pause:g} s", error.message, logging.WARNING, **error.to_dict())

    def recovered(self, seconds: float) -> None:
        """Say that it goes on."""
        say(f"binlog-merge: it goes on, after {seconds:.0f} s", "recovered", seconds=round(seconds, 1))

    def ended(self) -> None:
        """Say how far it has come."""
        if self.output is OutputFormat.text:
            self._print()
            print(
                f"stopped: {counted(self.transactions, 'transaction')} in {counted(self.rounds, 'round')}", flush=True
            )

    def _print(self) -> None:
        self.printed = time.monotonic()
        print(
            printable(line_of(time.time(), self._sum, None if self._last is None else self._last.to_dict())), flush=True
        )
        self._sum = [0, 0]


def line_of(now: float, done: list[int], last: Mapping[str, Any] | None) -> str:
    """Return the line that sums up rounds: transactions and input bytes `done`, and where the last one ended."""
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    text = f"{clock}  {counted(done[0], 'transaction')}, {decimal_size(done[1])}"
    if last is None:
        return text
    if last["last_key"] is not None:
        tso = OrderKey.parse(last["last_key"]).commit_tso
        if carries_time(tso):
            text += f"; up to {ago(now - (tso >> LOGICAL_BITS) / 1000)}"
    if last["held"]:
        by = f", {last['held_back_by']} holds back" if last["held_back_by"] else ""
        text += f"; {last['held']:,} {'branch' if last['held'] == 1 else 'branches'} held{by}"
    return text
