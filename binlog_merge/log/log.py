"""A merged log whose transactions are found by their places (`place`): the only way from a place to transactions.

    between   the first and the last transaction of a range
    before    the last transaction before a place
    through   the last transaction at a place or before

A GTID names a transaction, and a range includes the one with which it begins and the one with which it ends. A range
that begins with a GTID set begins with what a server with this set lacks; one that ends with a set ends with its last
transaction. All others are moments: a range begins with the first transaction at or after one, and ends before the
first one at or after it. A time is compared with TSOs, to the millisecond, where these carry time, else with commit
times. A position is between two events; one inside a transaction is before it.

Finding a place takes a bisection over the manifest's files, one over a file's chunks (`index`), and a walk through a
chunk from GTID event to GTID event. What has no key there (a DDL, all of a log with `output.cts: end`) is looked at by
itself (`transactions`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.files.log_folder import LogFolder, folder_of
from binlog_merge.files.manifest import ManifestState, OutputFile
from binlog_merge.log.index import CLOCKED, US, chunks_of, key_of, transactions_from
from binlog_merge.log.place import FORMS, Place, name_of, time_of_key
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.reader import MERGE_ON, Item, events_of, file_items, removed_before
from binlog_merge.log.transactions import FileTransactions, Transaction, event_offsets
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey, carries_time

_LOGGED = ("marker", "shards")
"""The origins of versions that are DDL of the log."""


class Range(NamedTuple):
    """The ranks of the first and the last transaction; there is none if the first is greater."""

    first: int
    last: int


class Log:
    """A merged log, open to find transactions, and to read them. Raises ManifestError if there is no manifest."""

    def __init__(self, place: Path | LogFolder) -> None:
        self.folder = folder_of(place)
        self.state: ManifestState = self.folder.state()
        self._found: dict[str, FileTransactions] = {}

    @property
    def directory(self) -> Path:
        """Return where the schema store is."""
        return self.folder.directory

    def refresh(self) -> None:
        """Load the manifest again."""
        self.folder.refresh()
        self.state = self.folder.state()

    @property
    def cluster_uuid(self) -> str:
        """Return the UUID of the cluster's GTIDs."""
        return "" if self.state.header is None else self.state.header.cluster_uuid

    @property
    def with_gtids(self) -> bool:
        """Return whether transactions certainly have GTIDs; False if they may be anonymous."""
        return self.state.header is not None and self.state.header.settings.get("output.gtid") == "on"

    @property
    def keys_at_ends(self) -> bool:
        """Return whether order keys stand at the ends of transactions only (`output.cts: end`)."""
        return self.state.header is not None and self.state.header.settings.get("output.cts") == "end"

    @property
    def last_rank(self) -> int:
        """Return the rank of the last published transaction, 0 if there is none."""
        return self.state.rank

    def format_description(self) -> RawEvent | None:
        """Return the first file's format description, None if nothing is published."""
        for file in self.state.files:
            return next(events_of(self.folder, file))
        return None

    def items(self, first_rank: int = 1) -> Iterator[Item]:
        """Yield the items from a rank on. Raises ChecksumMismatch and ManifestError for damage, OutsideLog if that rank
        was removed.
        """
        self.check_there(first_rank)
        for file in self.state.files:
            if file.last_rank >= first_rank:
                yield from file_items(self.folder, file, first_rank)

    def check_there(self, first_rank: int) -> None:
        """Raise OutsideLog if the log does not begin with this rank or before: its files were removed (`purge`)."""
        gone = self.state.gone
        if gone is not None and first_rank <= gone.last_rank:
            raise removed_before(self.folder.place(), gone, f"transaction {first_rank}")

    def check_reached(self, first_rank: int, what: str) -> int:
        """Return a rank with which reading begins. Raises OutsideLog if it is after the end; `what` named it."""
        if first_rank > self.last_rank + 1:
            raise OutsideLog(
                f"{what} is after the end of the log, which ends with transaction {self.last_rank}", remedy=MERGE_ON
            )
        return first_rank

    @property
    def files(self) -> tuple[OutputFile, ...]:
        """Return all published files, in order. Raises OutsideLog if there is none."""
        if not self.state.files:
            raise OutsideLog(f"nothing has been published in {self.folder} yet")
        return self.state.files

    @property
    def end_key(self) -> OrderKey | None:
        """Return the key of the last transaction, None if there is none."""
        return OrderKey.parse(self.state.files[-1].last_key) if self.state.files else None

    @property
    def whole_up_to(self) -> OrderKey:
        """Return the greatest key up to which the log is known to have every transaction."""
        last = self.state.last
        watermark = OrderKey.parse(last.watermark) if last is not None and last.watermark else ORIGIN
        return max(self.end_key or ORIGIN, watermark)

    def between(self, start: Place | None, stop: Place | None, *, ahead: bool = False) -> Range:
        """Return the transactions of a range; no more than the log has, but `ahead` it may end with a GTID to come.

        Raises ConfigError for what the log cannot have, and OutsideLog for what it does not have any more, or not yet.
        """
        first = self.state.first_rank if start is None else self._begins(start)
        if stop is None:
            return Range(first, self.last_rank)
        if stop.kind == "gtid":
            last = self._rank(stop) if ahead else min(self._rank(stop), self.last_rank)
        else:
            last = self.before(stop)
        gone = self.state.gone
        named = stop.kind in ("gtid", "gtids") and (start is None or last < first - 1)
        if gone is not None and last <= gone.last_rank and named:
            raise removed_before(self.folder.place(), gone, str(stop))
        if start is not None and last < first - 1:
            raise ConfigError(f"{stop} is before {start}", remedy="a range begins before it ends")
        return Range(first, last)

    def before(self, place: Place) -> int:
        """Return the rank of the last transaction before a place; of a GTID set of the last one in it."""
        if place.kind == "gtid":
            return self._rank(place) - 1
        if place.kind == "gtids":
            return self._executed(place)
        if place.kind == "position":
            return self._ended_by(place)
        if place.kind == "time":
            return self._at_time(place.micros, place) - 1
        assert place.moment is not None
        return self._at_key(place.moment.first, place) - 1

    def through(self, place: Place) -> int:
        """Return the rank of the last transaction at a place or before. Raises OutsideLog for a GTID behind the end."""
        if place.kind == "gtid":
            return self.check_reached(self._rank(place) + 1, str(place)) - 1
        if place.kind == "time":
            return self._at_time((place.micros // 1000 + 1) * 1000, place) - 1
        return self.before(place) if place.moment is None else self._at_key(place.moment.after, place) - 1

    def _begins(self, start: Place) -> int:
        """Return the rank of the first transaction of a range that begins with a place."""
        first = self.before(start) + 1
        if start.kind in ("tso", "key") and first > self.last_rank and self.state.last is not None:
            self._check_whole(start)
        self.check_there(first)
        return self.check_reached(first, str(start))

    def _check_whole(self, start: Place) -> None:
        """Raise OutsideLog if a transaction not merged yet may have committed before a TSO or a key."""
        whole = self.whole_up_to.commit_tso
        if start.moment is not None and start.moment.first.commit_tso > whole + 1:
            raise OutsideLog(
                f"{start} is after the end of the log, which is known to be whole up to TSO {whole}", remedy=MERGE_ON
            )

    def _rank(self, place: Place) -> int:
        if place.uuid not in ("", self.cluster_uuid):
            raise ConfigError(
                f"{place.option}: {place.uuid} is another cluster; this one's GTIDs begin with {self.cluster_uuid}"
            )
        return place.number

    def _executed(self, place: Place) -> int:
        """Return the rank up to which a GTID set has everything. Raises ConfigError for gaps, and OutsideLog."""
        uuid, option = self.cluster_uuid, place.option
        ranks = RankSet() if place.gtids is None else RankSet.of_gtids(place.gtids, uuid)
        if not ranks.intervals:
            raise ConfigError(f"{option}: no GTID of the set is of this log; its GTIDs begin with {uuid}")
        if ranks.low != len(ranks):
            up_to = f"; everything up to {uuid}:{ranks.low} is in the set" if ranks.low else ""
            raise ConfigError(
                f"{option}: the set has gaps, {uuid}:{ranks}, so it is no single place", remedy=f"give a GTID{up_to}"
            )
        if ranks.low > self.last_rank:
            raise OutsideLog(f"{option}: the set goes up to {uuid}:{ranks.low}, the log to {uuid}:{self.last_rank}")
        return ranks.low

    def _ended_by(self, place: Place) -> int:
        """Return the rank of the last transaction that ends at a position or before. Raises ConfigError, OutsideLog."""
        file = self.file(place.file, place)
        shown = self.folder.place(file.name)
        if not 4 <= place.number <= file.size:
            wrong = ConfigError if file.closed or place.number < 4 else OutsideLog
            raise wrong(f"{file.name} ends at {file.size}: there is no position {place.number}", file=shown)
        transactions = self.in_file(file)
        rank = transactions.ended_by(place.number)
        begin = transactions.end(rank) if rank >= file.first_rank else 4
        stop = transactions.end(rank + 1) if rank < file.last_rank else file.size
        if place.number in (begin, stop):
            return rank
        event = begin
        for at in event_offsets(self.folder, file, begin, stop):
            if at > place.number:
                break
            event = at
        if event == place.number:
            return rank
        raise ConfigError(
            f"position {place.number} of {file.name} is inside an event, which begins at {event}",
            file=shown,
            position=place.number,
            remedy="give a position where an event begins; `binlog-merge inspect` shows them as `# at`",
        )

    def _at_time(self, micros: int, place: Place) -> int:
        """Return the rank of the first transaction at or after a time: by its TSO if that carries time.

        Else by commit times, which need not grow from transaction to transaction.
        """
        if self.end_key is not None and carries_time(self.end_key.commit_tso):
            return self._at_key(OrderKey(-(-micros // 1000) << LOGICAL_BITS, 0, 0, 0), place)
        first, gone = self._committed_from(micros), self.state.gone
        if gone is not None and gone.last_rank and first == gone.last_rank + 1:
            raise removed_before(self.folder.place(), gone, str(place))
        return first

    def _committed_from(self, micros: int) -> int:
        """Return the rank of the first transaction that committed at a time or later; last rank + 1 if none did."""
        for file in self.state.files:
            chunks = chunks_of(self.folder, file)
            late = (chunks.rows[:, US] >= micros).nonzero()[0]
            for rows in transactions_from(self.folder, file, chunks, int(late[0])) if len(late) else ():
                found = rows[rows[:, x.X_COMMIT_US] >= micros]
                if len(found):
                    return int(found[0, x.X_RANK])
        return self.last_rank + 1

    def _at_key(self, key: OrderKey, place: Place) -> int:
        """Return the rank of the first transaction whose key is at least this one; last rank + 1 if there is none."""
        gone, files = self.state.gone, self.state.files
        if gone is not None and gone.last_key is not None and OrderKey.parse(gone.last_key) >= key:
            raise removed_before(self.folder.place(), gone, str(place))
        number = bisect_left(files, True, key=lambda file: OrderKey.parse(file.last_key) >= key)
        if number == len(files):
            return self.last_rank + 1
        file = files[number]
        return file.first_rank if OrderKey.parse(file.first_key) >= key else self._in_file(file, key, place)

    def _in_file(self, file: OutputFile, key: OrderKey, place: Place) -> int:
        """Return the rank of the first transaction of a file whose key is at least one between its first and its last.

        A DDL whose key the output does not say is before or after it by its commit time, if these are the TSOs' in the
        file, or by the schema store. Raises ConfigError if that does not decide.
        """
        low, high, its_key, clocked = self._gap(file, key)
        if its_key == key:
            return high
        said = cache(self.in_file(file).transaction)

        def reached(rank: int) -> bool:
            keys = (said(later).key for later in range(rank, high))
            return next((key_there for key_there in keys if key_there is not None), its_key) >= key

        undecided: Transaction | None = None
        for rank in range(low + 1 + bisect_left(range(low + 1, high), True, key=reached), high):
            key_there: Transaction = said(rank)
            is_after = (
                key_there.key >= key if key_there.key is not None else self._is_after(key_there, key, file, clocked)
            )
            if is_after and undecided is None:
                return rank
            if is_after:
                break
            undecided = None if is_after is False else undecided or key_there
        if undecided is None:
            return high
        raise ConfigError(
            f"the DDL {self.cluster_uuid}:{undecided.rank} may have committed before or after {place}: its own TSO is "
            "not in the output",
            file=self.folder.place(file.name),
            position=undecided.start,
            remedy="give a GTID instead",
        )

    def _gap(self, file: OutputFile, key: OrderKey) -> tuple[int, int, OrderKey, bool]:
        """Return the last rank below a key, the first one that is not, and its key, of those that the index has.

        At last whether commit times are the physical part of the TSOs of the transactions up to there.
        """
        low, high, last = file.first_rank, file.last_rank, OrderKey.parse(file.last_key)
        if self.keys_at_ends:
            return low, high, last, False
        chunks = chunks_of(self.folder, file)
        begin = chunks.last_before(key)
        clocked, seen = carries_time(key.commit_tso) and bool(chunks.rows[:begin, CLOCKED].all()), False
        for rows in transactions_from(self.folder, file, chunks, begin):
            known = rows[rows[:, x.X_TSO] >= 0]
            number = bisect_left(known, True, key=lambda row: (key_of(row) or ORIGIN) >= key)
            own = known[: number + 1][known[: number + 1, x.X_SEQ] == 0]
            clocked &= bool((own[:, x.X_COMMIT_US] // 1000 == own[:, x.X_TSO] >> LOGICAL_BITS).all())
            seen |= len(own) > 0
            if number:
                low = int(known[number - 1, x.X_RANK])
            if number < len(known):
                return low, int(known[number, x.X_RANK]), key_of(known[number]) or last, clocked and seen
        return low, high, last, clocked and seen

    def _is_after(self, ddl: Transaction, key: OrderKey, file: OutputFile, clocked: bool) -> bool | None:
        """Return whether a DDL is at a key or after it, None if nothing says it."""
        millis = ddl.commit_us // 1000
        if clocked and (millis + 1) << LOGICAL_BITS <= key.commit_tso:
            return False
        if clocked and OrderKey(millis << LOGICAL_BITS, 0, 0, 0) >= key:
            return True
        its_key = self._with_key(ddl, file).key
        return None if its_key is None else its_key >= key

    def file(self, name: str, place: Place) -> OutputFile:
        """Return the file with this name. Raises OutsideLog if it was removed, ConfigError if the log has none."""
        for file in self.state.files:
            if file.name == name:
                return file
        gone, files = self.state.gone, self.files
        if gone is not None and gone.last_name is not None and name <= gone.last_name:
            raise removed_before(self.folder.place(), gone, str(place))
        raise ConfigError(
            f"{place.option}: the log has no file {name}: its files are {files[0].name} to {files[-1].name}",
            file=self.folder.place(name),
            remedy=f"give {FORMS}",
        )

    def in_file(self, file: OutputFile) -> FileTransactions:
        """Return a file's transactions; the last few files asked for are remembered."""
        transactions = self._found.get(file.name)
        if transactions is None or transactions.file.size != file.size:
            self._found.pop(file.name, None)
            if len(self._found) > 3:
                self._found.pop(next(iter(self._found)))
            transactions = self._found[file.name] = FileTransactions(self.folder, file)
        return transactions

    def at_rank(self, rank: int) -> Transaction | None:
        """Return the transaction with this rank, None if the log does not have it."""
        files = self.files
        if not files[0].first_rank <= rank <= files[-1].last_rank:
            return None
        return self._transaction(files[bisect_right(files, rank, key=lambda file: file.first_rank) - 1], rank)

    def transactions(self, file: OutputFile) -> Iterator[Transaction]:
        """Yield a file's transactions in order."""
        for rank in range(file.first_rank, file.last_rank + 1):
            yield self._transaction(file, rank)

    def _transaction(self, file: OutputFile, rank: int) -> Transaction:
        """Return a transaction of a file; a DDL's key comes from the store if its text has none."""
        transaction = self.in_file(file).transaction(rank)
        return (
            self._with_key(transaction, file)
            if transaction.key is None and transaction.ddl is not None
            else transaction
        )

    def _with_key(self, found: Transaction, file: OutputFile) -> Transaction:
        """Return a DDL with its key: the manifest has those of a file's ends, the schema store those of logged DDL."""
        low, high = OrderKey.parse(file.first_key), OrderKey.parse(file.last_key)
        ends = {file.first_rank: low, file.last_rank: high}
        if found.rank in ends:
            return replace(found, key=ends[found.rank])
        keys = [key for key, text in self._stored if text == found.ddl and low <= key <= high]
        return replace(found, key=keys[0]) if len(keys) == 1 else found

    @cached_property
    def _stored(self) -> tuple[tuple[OrderKey, str], ...]:
        """Return the keys and texts of all logical DDL in the schema store."""
        from snapshot_store.store.db import Store

        with self.folder.schema_store() as (path, shown):
            if not path.exists():
                return ()
            with as_merge_errors(shown), Store.open(path, True) as store:
                history = store.load_history()
        tables = {(v.key, v.ddl) for v in history.versions if v.node is None and v.origin in _LOGGED}
        databases = {(v.key, v.ddl) for v in history.schema_versions if v.node is None and v.origin in _LOGGED}
        return tuple(sorted(tables | databases))


@dataclass(frozen=True, slots=True)
class Around:
    """A position in the log: the transaction before it, the one it is inside of, and the next one."""

    file: str
    position: int
    last: Transaction | None
    inside: Transaction | None
    following: Transaction | None


def find_place(log: Log, place: Place) -> Around:
    """Return the position after everything at a place or before. Raises OutsideLog."""
    check_inside(log, place)
    through = log.through(place)
    last, following = log.at_rank(through), log.at_rank(through + 1)
    if last is not None:
        return Around(last.file, last.end, last, None, following)
    gone = log.state.gone
    if gone is not None and through < gone.last_rank:
        raise removed_before(log.folder.place(), gone, str(place))
    if following is None or gone is None:
        raise OutsideLog("no transaction of the log is that early")
    return Around(following.file, following.start, None, None, following)


def check_inside(log: Log, place: Place) -> None:
    """Raise OutsideLog for a moment that the log does not reach; of other places that is not asked."""
    if place.moment is None:
        return
    moment, first, whole = place.moment, OrderKey.parse(log.files[0].first_key), log.whole_up_to
    gone, limit = log.state.gone, moment.after.previous()
    if limit < first and gone is not None and gone.last_key is not None and log.files[0].first_rank > 1:
        return  # what was removed is refused where the place is looked for
    if moment.wall_clock and not time_of_key(whole):
        return
    if limit < first:
        raise OutsideLog(f"{name_of(moment.first)} is before the log, which begins at {name_of(first)}")
    end = OrderKey.parse(log.files[-1].last_key)
    # What the watermark has not passed may still come, but for the log's last transaction itself.
    known = whole if whole == end else whole.previous()
    if moment.first > known and moment.first.commit_tso != end.commit_tso:
        raise OutsideLog(
            f"{name_of(moment.first)} is after the end of the log, which is known to be whole up to {name_of(whole)}",
            remedy="merge on, then ask again",
        )


def find_transaction(log: Log, place: Place) -> Around:
    """Return the transactions around a position. Raises ConfigError for an invalid one, OutsideLog before the first."""
    before = log.before(place)
    last, following, inside = log.at_rank(before), log.at_rank(before + 1), None
    if following is not None and following.file == place.file and following.start < place.number:
        inside, following = following, log.at_rank(before + 2)
    if last is None:
        raise OutsideLog(
            f"no transaction stands before {place.file}:{place.number}",
            file=log.folder.place(place.file),
            position=place.number,
        )
    return Around(place.file, place.number, last, inside, following)
