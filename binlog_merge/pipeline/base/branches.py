"""XA branches that cross the boundary between two pieces of a node's log, and the state passed from piece to piece."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Hash = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LateCommit:
    """An XA COMMIT or XA ROLLBACK that could not be joined within its piece.

    `branch` is (start, end, set, flags) of the prepare if that is known. `local` is the index of its placeholder among
    the piece's locals, -1 if its TSO is known.
    """

    local: int
    locals_before: int
    xid: Hash
    gtrid: Hash
    transaction: int
    tso: int | None
    rollback: bool
    commit_us: int
    commit_at: int
    branch: tuple[int, int, int, int] | None
    greatest: tuple[int, int] = (0, 0)  # the greatest (tso, transaction) in the piece before the branch


@dataclass(frozen=True, slots=True)
class OpenBranch:
    """A prepared branch that was neither committed nor rolled back within its piece."""

    xid: Hash
    gtrid: Hash
    transaction: int
    start: int
    end: int
    set: int
    flags: int
    max_tso: int
    max_transaction: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared branch: where its bytes are, and the greatest commit TSO before it in its log."""

    gtrid: Hash
    transaction: int
    file_index: int
    start: int
    end: int
    tables: tuple[tuple[str, str], ...]
    flags: int
    max_tso: int


@dataclass(frozen=True, slots=True)
class EdgeBranch:
    """A committed branch whose prepare and commit are in different pieces."""

    tso: int
    transaction: int
    file_index: int
    start: int
    end: int
    commit_us: int
    tables: tuple[tuple[str, str], ...]
    flags: int


@dataclass(frozen=True, slots=True)
class KeptBranch:
    """A prepared branch that committed without a commit TSO; it takes the place of the local with index `local`."""

    local: int
    file_index: int
    start: int
    end: int
    tables: tuple[tuple[str, str], ...]
    flags: int
    gtrid: Hash = (0, 0)
    commit_at: int = 0
    tso_before: int = 0  # the greatest commit TSO before its prepare


@dataclass(frozen=True, slots=True)
class Carry:
    """The state that the pieces of a node's log up to some position pass on to the next piece."""

    max_tso: int = 0
    max_transaction: int = 0
    seq: int = 0
    commit_rows: Mapping[Hash, int] = field(default_factory=dict)
    open: Mapping[Hash, Prepared] = field(default_factory=dict)

    def to_dict(self, file_names: Sequence[str]) -> dict[str, Any]:
        """Return plain values for the manifest. Files are given by name, since their indexes change between runs."""
        name = lambda p: file_names[p.file_index] if p.file_index >= 0 else ""  # noqa: E731
        return {
            "max_tso": self.max_tso,
            "max_transaction": self.max_transaction,
            "seq": self.seq,
            "commit_rows": [[*gtrid, tso] for gtrid, tso in self.commit_rows.items()],
            "open": [
                [*xid, *p.gtrid, p.transaction, name(p), p.start, p.end, p.tables, p.flags, p.max_tso]
                for xid, p in self.open.items()
            ],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], file_names: Sequence[str]) -> "Carry":
        """Read what `to_dict` wrote.

        A branch in a file that no longer exists has been merged already and gets file index -1. It is kept because its
        XA COMMIT may be in a file that is read again.
        """
        index = {name: i for i, name in enumerate(file_names)}
        prepared = {}
        for x1, x2, g1, g2, transaction, file, start, end, tables, flags, max_tso in values["open"]:
            named = tuple((schema, table) for schema, table in tables)
            prepared[(x1, x2)] = Prepared((g1, g2), transaction, index.get(file, -1), start, end, named, flags, max_tso)
        rows = {(g1, g2): tso for g1, g2, tso in values["commit_rows"]}
        return cls(values["max_tso"], values["max_transaction"], values["seq"], rows, prepared)
