"""Messages of rows in their order: a row may make several, and transactions begin before one and end behind one."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.messages.message import Encoded, Schemas

BEGIN, CHANGE, TOMBSTONE, CREATED, END = range(5)
"""The places of a row's messages."""
_PLACES: Final = 8


@dataclass
class Ordering:
    """Collects messages; `made` puts them into their order."""

    _values: list[Any] = field(default_factory=list)
    _keys: list[Any] = field(default_factory=list)
    _places: list[Any] = field(default_factory=list)
    _aside: list[Any] = field(default_factory=list)

    def take(self, place: int, at: Any, values: Any, keys: Any) -> None:
        """Take the messages of the rows `at` among those of all rows."""
        chosen = pa.array(at)
        self.add(place, at, values.take(chosen), keys.take(chosen))

    def add(self, place: int, at: Any, values: Any, keys: Any) -> None:
        """Take messages, one for each row of `at`."""
        self._values.append(pc.cast(values, pa.large_string()))
        self._keys.append(pc.cast(keys, pa.large_string()))
        self._places.append(at * _PLACES + place)
        self._aside.append(np.full(len(at), place in (BEGIN, END)))

    def made(self, schemas: Schemas, aside: Schemas | None) -> Encoded:
        """Return all messages."""
        places = np.concatenate(self._places)
        if len(self._places) == 1:
            return Encoded(self._keys[0], self._values[0], places // _PLACES, schemas)
        turn = np.argsort(places, kind="stable")
        values, keys = (pa.concat_arrays(parts).take(pa.array(turn)) for parts in (self._values, self._keys))
        marked = np.concatenate(self._aside)[turn] if aside is not None else None
        return Encoded(keys, values, places[turn] // _PLACES, schemas, marked, aside)
