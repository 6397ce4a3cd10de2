"""Statements that a server of binlogs answers, as values: what the parser gives and the answers are made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, a number or NULL."""

    value: str | int | None


@dataclass(frozen=True, slots=True)
class SystemVariable:
    """`@@name`, in lower case, whatever its scope."""

    name: str


@dataclass(frozen=True, slots=True)
class UserVariable:
    """`@name`, in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function, its name in lower case."""

    name: str
    arguments: "tuple[Expression, ...]" = ()


Expression = Literal | SystemVariable | UserVariable | Call


@dataclass(frozen=True, slots=True)
class Select:
    """The expressions of a SELECT, each under the name of its column."""

    items: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class SetVariables:
    """What a SET assigns: to user variables under `@name`, to the session's under their names."""

    items: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Show:
    """A SHOW: `what` in lower case ("binary logs"), and the names that its LIKE or WHERE lets through."""

    what: str
    names: "Names | None" = None


@dataclass(frozen=True, slots=True)
class Names:
    """Patterns of LIKE, any of which lets a name through. `=` and IN are patterns without wildcards."""

    patterns: tuple[str, ...]

    def match(self, name: str) -> bool:
        return any(_like(pattern, name) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class ShowEvents:
    """SHOW BINLOG EVENTS: of a file or the first one, from a position, so many."""

    file: str = ""
    position: int = 4
    skip: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Kill:
    """KILL of a connection."""

    connection_id: int


@dataclass(frozen=True, slots=True)
class Use:
    """USE: make a schema the default."""

    schema: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """A statement that changes nothing here: BEGIN, COMMIT, ROLLBACK, SET NAMES."""


@dataclass(frozen=True, slots=True)
class Empty:
    """No statement at all."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Whatever is not for such a server."""


Statement = Select | SetVariables | Show | ShowEvents | Kill | Use | Nothing | Empty | Unsupported


def exactly(name: str) -> str:
    """Return the pattern that lets through one name alone."""
    return "".join("\\" + char if char in "%_\\" else char for char in name)


def _like(pattern: str, name: str) -> bool:
    """Tell whether a name is LIKE a pattern, in any case; a backslash takes a wildcard for itself.

    Goes back to the last % only, so that no pattern takes long.
    """
    units = _units(pattern.lower())
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
    return all(rest == "%" for rest in units[unit:])


def _units(pattern: str) -> list[str]:
    """Cut a pattern into % and _ and characters, which have a backslash before them."""
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
