"""Which rules of streams match no table: said when a server begins, and for as long as it is so in its note.

It is no error, since the table may come; but a name that is misspelt looks the same.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from binlog_merge.binlog_server.offered import Offered, Rules
from binlog_merge.errors import MergeError

_EVERY: Final = 10.0


class Unmatched:
    """The rules without a table, by stream; for one thread. `tables` returns those of the log, as (schema, table)."""

    def __init__(
        self,
        streams: Sequence[Offered],
        tables: Callable[[], Iterable[tuple[str, str]]],
        report: Callable[[str], None],
    ) -> None:
        self._streams = streams
        self._tables = tables
        self._report = report
        self._looked: float | None = None
        self.found: dict[str, Rules] = {}

    def look(self) -> None:
        """Look at the log's tables, if it is time: at the first call, and then while rules are without any."""
        now, last = time.monotonic(), self._looked
        if last is not None and (not self.found or now - last < _EVERY):
            return
        try:
            tables = list(self._tables())
        except MergeError:  # what definitions are asked for says it
            return
        self._looked, before = now, self.found
        self.found = {stream.name: rules for stream in self._streams if (rules := stream.unmatched(tables))}
        for name, rules in self.found.items() if last is None else ():
            for rule in rules:
                self._report(f"stream {name}: no table of the log matches {rule}; one that comes later is taken")
        for name, rules in before.items():
            for rule in rules:
                if rule not in self.found.get(name, ()):
                    self._report(f"stream {name}: {rule} matches a table now")
