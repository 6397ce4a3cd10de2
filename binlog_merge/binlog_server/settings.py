"""What a session has set: variables, its default schema, the transaction in which it is."""

from dataclasses import dataclass, field

from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.binlog_server.limits import Limits
from binlog_merge.binlog_server.tables.session import Reads
from binlog_merge.binlog_server.variables import Facts
from binlog_merge.protocol.packets import Value


class Kept(dict[str, Value]):
    """Values by their names; `size` is how many characters all of both have. Set, `del`, `pop` and `clear` keep it.

    To count them anew with each would take longer the more there are.
    """

    size: int = 0

    def size_without(self, name: str) -> int:
        """Return the size without this variable."""
        return self.size - (_size(name, self[name]) if name in self else 0)

    def __setitem__(self, name: str, value: Value) -> None:
        self.size = self.size_without(name) + _size(name, value)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.size = self.size_without(name)
        super().__delitem__(name)

    def pop(self, name: str, default: Value = None) -> Value:  # type: ignore[override]
        """Take a variable away; return its value, or the default."""
        self.size = self.size_without(name)
        return super().pop(name, default)

    def clear(self) -> None:
        """Take all away."""
        self.size = 0
        super().clear()


def _size(name: str, value: Value) -> int:
    return len(name) + len(str(value))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a transaction WITH CONSISTENT SNAPSHOT sees: the facts as it began, and the definitions as of their log."""

    facts: Facts
    definitions: Definitions


@dataclass(slots=True)
class Settings:
    """A session's settings: user variables as `@name`, session variables by their names.

    `database` is the character set and the collation of the default schema, None without one. `tls` is the version of
    TLS in use, "" without; `snapshot` is that of the transaction in which the session is.
    `version_prefix` stands before what VERSION() tells the client; `most_kept` limits the characters of all values and
    their names.
    """

    user: str
    connection_id: int
    tls: str = ""
    version_prefix: str = ""
    schema: str | None = None
    database: tuple[str, str] | None = None
    snapshot: Snapshot | None = None
    values: Kept = field(default_factory=Kept)
    most_kept: int = Limits().variables
    reads: Reads = field(init=False)

    def __post_init__(self) -> None:
        self.reads = Reads(self.values)

    def end(self) -> None:
        """End the transaction in which the session is."""
        self.snapshot = None
        self.reads.end()

    def either(self, *names: str) -> Value:
        """Return the value of the first of these variables that is set, None if none is."""
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)
