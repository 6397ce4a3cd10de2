"""The one table of the growing log, as a reader of events has it, beside what the cluster's nodes hold."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.mysql_server import mysqlbinlog

Row = dict[str, str]


@dataclass
class Seen:
    """What rows events have said so far: the rows that they leave, the ids that they took away, and their numbers."""

    rows: dict[str, Row] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def change(self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        """Take an event's row: `before` None for an insert, `after` None for a delete."""
        self.counts["INSERT" if before is None else "DELETE" if after is None else "UPDATE"] += 1
        if before is not None:
            old = _row(before)
            assert {**old, **self.rows.get(old["id"], {})} == old, "an event's row is not as the one before has left it"
            self.rows.pop(old["id"], None)
            self.gone.add(old["id"])
        if after is not None:
            new = _row(after)
            assert new["id"] not in self.rows
            self.rows[new["id"]] = new
            self.gone.discard(new["id"])

    def wrong(self, case: Path) -> list[object]:
        """Return what is not as the nodes hold it. A column that came later has its default in rows before that."""
        held = held_rows(case)
        found: list[object] = [row for key, row in self.rows.items() if {**held.get(key, {}), **row} != held.get(key)]
        return found + [key for key in self.gone if key in held]

    def whole(self, case: Path) -> bool:
        """Return whether every row that the nodes hold was seen."""
        return set(self.rows) == set(held_rows(case))


def _row(values: Mapping[str, Any]) -> Row:
    return {name: _text(name, value) for name, value in values.items()}


def _text(name: str, value: object) -> str:
    """Return a value as a server shows it; clients show decimals and times in ways of their own."""
    if name == "price":
        return f"{Decimal(str(value)):.2f}"
    if name == "placed_at":
        return datetime.fromisoformat(str(value).rstrip("Z")).isoformat(" ", "milliseconds")
    return str(value)


def held_rows(case: Path) -> dict[str, Row]:
    """Return the rows that the nodes hold in the end, by id, with the texts that a server shows."""
    (table,) = json.loads((case / "expected" / "tables.json").read_text()).values()
    names = [part.partition("`")[0] for part in table["select"].split("CAST(`")[1:]]
    rows = [dict(zip(names, map(str, row), strict=True)) for row in table["rows"]]
    return {row["id"]: row for row in rows}


def told(files: list[Path], *options: str) -> Counter[str]:
    """Return how many rows of each kind mysqlbinlog finds in files."""
    lines = mysqlbinlog(files, "-v", *options).decode(errors="replace").splitlines()
    words = Counter(line.split()[1] for line in lines if line.startswith("### "))
    return Counter({word: words[word] for word in ("INSERT", "UPDATE", "DELETE") if words[word]})
