"""Partitioning, and its text form in a store: two lines.

    RANGE (`at`) (`p0`<10,`p1`<MAXVALUE) ()
    {"by": "`at`", "values": [[["10"]], [["MAXVALUE"]]]}

The first line has the method, the columns, the partitions with their upper bounds, and the subpartitions: enough to
know which statements a server refuses. The second, which older versions did not write, has the expression and the
values: enough to know which rows are in which partition.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from snapshot_store.mysql.sql.names import quote_name

_PIECE = re.compile(r"`((?:[^`]|``)+)`(?:<([^,)]*))?")

Tuples = tuple[tuple[str, ...], ...]
Part = tuple[str, str, Tuples]
Said = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A table's partitioning; `bounds` has one entry for each of `names`, "" if there is no bound.

    `values`, as `Partition.tuples`, has one for each of `names` too. `expression` is that of HASH, RANGE and LIST, ""
    if it is not known; `sub` is that of HASH subpartitions. Each partition has `subs` subpartitions. `said` are options
    of partitions and subpartitions by their names; `algorithm` is that of KEY, 0 for the server's own choice.
    """

    method: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    bounds: tuple[str, ...]
    subpartitions: tuple[str, ...] = ()
    values: tuple[Tuples, ...] = ()
    expression: str = ""
    linear: bool = False
    sub: str = ""
    subs: int = 0
    linear_sub: bool = False
    said: Said = ()
    algorithm: int = 0
    sub_algorithm: int = 0

    @property
    def by_value(self) -> bool:
        """Return whether each partition is defined by values: RANGE or LIST."""
        return self.method.startswith(("RANGE", "LIST"))

    @property
    def parts(self) -> list[Part]:
        """Return (name, bound, values) for each partition."""
        values = self.values or ((),) * len(self.names)
        return list(zip(self.names, self.bounds, values, strict=True))

    @property
    def sub_columns(self) -> tuple[str, ...]:
        """Return the columns of SUBPARTITION BY KEY."""
        return self.columns[self._own_columns() :] if self.subs and not self.sub else ()

    def sql(self) -> str | None:
        """Return the PARTITION BY clause, or None if it is not completely known."""
        by = self._by()
        parts = [self._part_sql(i, part) for i, part in enumerate(self.parts)]
        if by is None or None in parts:
            return None
        numbered = self.names == tuple(f"p{i}" for i in range(len(self.names)))
        if not self.by_value and not self.subs and numbered and not self.said:
            return f"PARTITION BY {by} PARTITIONS {len(self.names)}"
        listed = ",\n ".join(part for part in parts if part is not None)
        return f"PARTITION BY {by}\n({listed})"

    def _by(self) -> str | None:
        """Return what follows PARTITION BY: method, columns or expression, and SUBPARTITION BY; None if not known."""
        first = len(self.columns) if not self.subs or self.sub else self._own_columns()
        by = f"({self.expression})"
        if self.method.endswith(("COLUMNS", "KEY")):
            by = f"({','.join(map(quote_name, self.columns[:first]))})"
        elif not self.expression:
            return None
        text = f"{'LINEAR ' if self.linear else ''}{self.method}{_algorithm(self.algorithm)} {by}"
        if not self.subs:
            return text
        columns = ",".join(map(quote_name, self.sub_columns))
        sub = f"HASH ({self.sub})" if self.sub else f"KEY{_algorithm(self.sub_algorithm)} ({columns})"
        return f"{text}\nSUBPARTITION BY {'LINEAR ' if self.linear_sub else ''}{sub} SUBPARTITIONS {self.subs}"

    def _own_columns(self) -> int:
        """Return how many of the columns are those of PARTITION BY; the columns of SUBPARTITION BY follow them."""
        if self.method.endswith("COLUMNS"):
            return len(self.values[0][0]) if self.values and self.values[0] else len(self.columns)
        return len({column.lower() for column in self.columns if quote_name(column) in self.expression})

    def _part_sql(self, index: int, part: Part) -> str | None:
        name, _, values = part
        text = f"PARTITION {quote_name(name)}"
        if self.by_value and not values:
            return None
        if self.method.startswith("RANGE"):
            bound = ",".join(values[0])
            text += f" VALUES LESS THAN {bound if bound == 'MAXVALUE' and self.method == 'RANGE' else f'({bound})'}"
        elif self.method.startswith("LIST"):
            many = len(values[0]) > 1
            text += f" VALUES IN ({','.join(f'({v})' if many else v for v in map(','.join, values))})"
        text += self._said(name)
        if self.subs and len(self.subpartitions) == len(self.names) * self.subs:
            own = self.subpartitions[index * self.subs : (index + 1) * self.subs]
            text += f" ({', '.join(f'SUBPARTITION {quote_name(sub)}{self._said(sub)}' for sub in own)})"
        return text

    def _said(self, name: str) -> str:
        said = dict(self.said).get(name, "")
        return f" {said}" if said else ""

    def with_parts(
        self, parts: Sequence[Part], new: Mapping[str, tuple[str, ...]] = MappingProxyType({}), said: Said = ()
    ) -> "Partitioning":
        """Return the same partitioning with other partitions.

        `new` are the subpartitions that are written for new ones, by their names; `said` are their options.
        """
        names, bounds = tuple(part[0] for part in parts), tuple(part[1] for part in parts)
        subs = self._subpartitions_of(names, new)
        kept = {name for name in names if name not in new} | (set(subs) & set(self.subpartitions))
        options = (*((name, text) for name, text in self.said if name in kept), *said)
        values = tuple(part[2] for part in parts)
        return replace(self, names=names, bounds=bounds, values=values, subpartitions=subs, said=options)

    def _subpartitions_of(self, names: Sequence[str], new: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """Return the subpartitions of partitions, () if they all have the names that servers give them."""
        if not self.subs or not (self.subpartitions or any(new.values())):
            return ()
        known = {n: self.subpartitions[i * self.subs : (i + 1) * self.subs] for i, n in enumerate(self.names)}
        known |= new
        return tuple(sub for n in names for sub in known[n] or [f"{n}sp{i}" for i in range(self.subs)])

    def text(self) -> str:
        """Return the text form."""
        pairs = zip(self.names, self.bounds, strict=True)
        parts = ",".join(f"{quote_name(n)}<{b}" if b else quote_name(n) for n, b in pairs)
        lists = (",".join(map(quote_name, self.columns)), parts, ",".join(map(quote_name, self.subpartitions)))
        rows = {"by": self.expression, "linear": self.linear, "values": self.values}
        subs = {"sub": self.sub, "subs": self.subs, "linear_sub": self.linear_sub}
        more = {"said": self.said, "algorithm": self.algorithm, "sub_algorithm": self.sub_algorithm}
        known = {name: value for name, value in {**rows, **subs, **more}.items() if value}
        first = f"{self.method} " + " ".join(f"({items})" for items in lists)
        return f"{first}\n{json.dumps(known)}" if known else first

    @classmethod
    def of(cls, text: str) -> "Partitioning":
        """Parse the text form."""
        text, _, second = text.rpartition("\n") if text.endswith("}") else (text, "", "")
        known = json.loads(second or "{}")
        method = text[: text.index(" (")]
        columns, parts, subpartitions = re.findall(r"\(((?:`(?:[^`]|``)+`[^`)]*)*)\)", text[len(method) :])
        found = [(name.replace("``", "`"), bound) for name, bound in _PIECE.findall(parts)]
        return cls(
            method,
            tuple(name.replace("``", "`") for name, _ in _PIECE.findall(columns)),
            tuple(name for name, _ in found),
            tuple(bound for _, bound in found),
            tuple(name.replace("``", "`") for name, _ in _PIECE.findall(subpartitions)),
            tuple(tuple(tuple(row) for row in values) for values in known.get("values", ())),
            known.get("by", ""),
            known.get("linear", False),
            known.get("sub", ""),
            known.get("subs", 0),
            known.get("linear_sub", False),
            tuple((name, said) for name, said in known.get("said", ())),
            known.get("algorithm", 0),
            known.get("sub_algorithm", 0),
        )


def _algorithm(number: int) -> str:
    return f" ALGORITHM = {number}" if number else ""
