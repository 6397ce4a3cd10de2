"""The statements that a binlog server answers, as values: the result of the parser, and the input of the answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.sql.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT, which is read further by who answers it: `table` is the first that it is from, with its schema.

    Without FROM, or from DUAL, it is from none; a schema is "" where none is written and the session has none.
    """

    table: tuple[str, str] | None
    cursor: Cursor = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SetVariables:
    """SET: the assignments, to user variables as `@name` and to session variables by their names; None is DEFAULT."""

    items: tuple[tuple[str, Node | None], ...]


@dataclass(frozen=True, slots=True)
class Show:
    """A SHOW: `what` in lower case ("binary logs"), and the names that match its LIKE or WHERE.

    `where` is the text of a WHERE that says more than names; `everywhere`: SHOW GLOBAL.
    """

    what: str
    names: "Names | None" = None
    where: str = ""
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """Patterns of LIKE; a name must match any of them. `=` and IN are patterns without wildcards."""

    patterns: tuple[str, ...]

    def matcher(self) -> Callable[[str], bool]:
        """Return a function that says whether a name matches; the patterns are taken apart once."""
        taken_apart = [_units(pattern.lower()) for pattern in self.patterns]
        return lambda name: any(_like(units, name) for units in taken_apart)

    def match(self, name: str) -> bool:
        return self.matcher()(name)


@dataclass(frozen=True, slots=True)
class ShowDefinitions:
    """A SHOW or DESCRIBE of databases, tables, columns or indexes.

    `like` is the pattern of LIKE, `where` the text of a condition; `optional` is IF NOT EXISTS.
    """

    what: str
    schema: str | None = None
    table: str = ""
    full: bool = False
    like: str | None = None
    where: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class StartTransaction:
    """START TRANSACTION or BEGIN; with `snapshot`, WITH CONSISTENT SNAPSHOT."""

    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """COMMIT, ROLLBACK, and statements that commit: FLUSH TABLES."""


@dataclass(frozen=True, slots=True)
class ShowEvents:
    """SHOW BINLOG EVENTS of `file` ("": the first) from `position`; `skip` and `limit` are its LIMIT."""

    file: str = ""
    position: int = 4
    skip: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """FLUSH TABLES WITH READ LOCK and LOCK TABLES: commits, and what is read stays as it is."""


@dataclass(frozen=True, slots=True)
class Unlock:
    """UNLOCK TABLES."""


@dataclass(frozen=True, slots=True)
class SetNames:
    """SET NAMES and SET CHARACTER SET: the character set of statements and results, "" for the default.

    `literals`: also that to which literals are converted, which SET CHARACTER SET leaves to be the server's.
    """

    charset: str
    collation: str = ""
    literals: bool = True


@dataclass(frozen=True, slots=True)
class SetIsolation:
    """SET TRANSACTION: `level` is the isolation level in lower case, "" where only access is set."""

    level: str


@dataclass(frozen=True, slots=True)
class Kill:
    """KILL: end a connection."""

    connection_id: int


@dataclass(frozen=True, slots=True)
class Use:
    """USE: make a schema the default."""

    schema: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """A statement that changes nothing here: SAVEPOINT, LOCK INSTANCE."""


@dataclass(frozen=True, slots=True)
class Empty:
    """No statement at all."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Any statement that a binlog server does not answer; `reason` says what was not understood."""

    reason: str = field(default="", compare=False)


Statement = (
    Select
    | SetVariables
    | Show
    | ShowDefinitions
    | ShowEvents
    | StartTransaction
    | EndTransaction
    | Lock
    | Unlock
    | SetNames
    | SetIsolation
    | Kill
    | Use
    | Nothing
    | Empty
    | Unsupported
)


def exactly(name: str) -> str:
    """Return the LIKE pattern that matches this name only."""
    return "".join("\\" + char if char in "%_\\" else char for char in name)


def _like(units: list[str], name: str) -> bool:
    """Return whether a name is LIKE a pattern's units, ignoring case; a backslash escapes a wildcard.

    Backtracks to the last % only, so that no pattern takes long.
    """
    text, at, unit, star, mark = name.lower(), 0, 0, -1, 0
    while at < len(text):
        if unit < len(units) and units[unit] == "%":
            star, mark, unit = unit, at, unit + 1
        elif unit < len(units) and units[unit] in ("_", "\\" + text[at]):
            at, unit = at + 1, unit + 1
        elif star >= 0:
            mark += 1
            at, unit = mark, star + 1
        else:
            return False
    return all(rest == "%" for rest in islice(units, unit, None))


def _units(pattern: str) -> list[str]:
    """Split a pattern into the wildcards % and _, and characters with a backslash before each."""
    units: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            units.append("\\" + pattern[at])
        else:
            units.append(char if char in "%_" else "\\" + char)
        at += 1
    return units
