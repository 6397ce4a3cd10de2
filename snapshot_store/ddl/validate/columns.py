"""Checks for a table's columns: sizes, defaults, generated columns, AUTO_INCREMENT.

Sources: `prepare_create_field`, `check_column_...` and `Create_field::init` of mysql-server `sql/`; refman, "Limits on
Table Column Count and Row Size". Each rule is compared with a real server by the statements of fixtures/ddl.
"""

from collections.abc import Iterator, Mapping, Sequence

from snapshot_store.ddl.resolve import Context
from snapshot_store.errors import DdlNotUnderstood, UnsupportedType
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.expr.read import Expression, read_expression
from snapshot_store.mysql.sql.functions import function
from snapshot_store.mysql.sql.session import STORED
from snapshot_store.mysql.text.charsets import max_bytes
from snapshot_store.mysql.values.literals import folded

# The model has expressions as the server prints them: sql_mode does not affect how these are parsed.
_LARGEST_ROW = 65535
_MOST_COLUMNS = {"InnoDB": 1017}
_WITHOUT_EXPRESSIONS = frozenset({"MEMORY", "CSV", "ARCHIVE", "BLACKHOLE", "FEDERATED", "MRG_MYISAM"})


def expression_of(context: Context, text: str) -> Expression:
    """Parse an expression of the model."""
    try:
        return read_expression(text, STORED)
    except DdlNotUnderstood as error:
        raise context.error(f"the expression {text}: {error.reason}") from None


def check_columns(context: Context, table: Table) -> None:
    """Raise DdlRejected for columns that a server refuses."""
    most = _MOST_COLUMNS.get(table.engine, 4096)
    context.limit(len(table.columns) <= most, f"{len(table.columns)} columns, at most {most}")
    context.limit(any(not c.invisible for c in table.columns), "a table must have a visible column")
    for column in table.columns:
        _check_type(context, column, table)
        _check_default(context, column)
    context.limit(_row_bytes(table.columns) <= _LARGEST_ROW, f"a row would be longer than {_LARGEST_ROW} bytes")
    _check_auto_increment(context, table)
    _check_expressions(context, table)


def _check_type(context: Context, column: Column, table: Table) -> None:
    type = column.type
    if type.name in ("char", "binary"):
        context.limit((type.length or 0) <= 255, f"column {column.name} is longer than 255; use BLOB or TEXT")
    if type.name in ("varchar", "varbinary"):
        context.limit(bytes_of(type) <= _LARGEST_ROW, f"column {column.name} is too long; use BLOB or TEXT")
    if type.members:
        _check_members(context, column)
    if table.engine == "MEMORY":
        context.limit(type.defaults_to_literal, f"engine MEMORY has no column of type {type.name}")
    if table.engine in _WITHOUT_EXPRESSIONS:
        computed = column.generated is not None or (column.default is not None and column.default.kind == "expression")
        context.limit(not computed, f"engine {table.engine} computes no column")
    if table.engine == "CSV":
        context.limit(not column.nullable, "engine CSV has no nullable columns")


def _check_members(context: Context, column: Column) -> None:
    members = [folded(member, column.type.collation) for member in column.type.members]
    twice = len(set(members)) < len(members)
    context.limit(not (twice and context.session.strict), f"column {column.name} has a member twice")
    if column.type.family is Family.SET:
        context.limit(not any("," in member for member in members), f"a member of {column.name} has a comma")
        context.limit(len(members) <= 64, f"column {column.name} has more than 64 members")


def bytes_of(type: ColumnType) -> int:
    """Return the maximum size in bytes of a string or byte string of this type."""
    return (type.length or 0) * max_bytes(type.charset)


def _row_bytes(columns: Sequence[Column]) -> int:
    nullable = sum(column.nullable for column in columns)
    stored = (c for c in columns if c.generated is None or c.generated.stored)
    return sum(column_bytes(column.type) for column in stored) + (nullable + 7) // 8


def column_bytes(type: ColumnType) -> int:
    """Return how many bytes a column of this type takes in the server's record format."""
    if type.facts.size:
        return type.facts.size + (type.fsp + 1) // 2
    match type.family:
        case Family.ENUM | Family.SET:
            return type.member_bytes
        case Family.BIT:
            return ((type.length or 1) + 7) // 8
        case Family.DECIMAL:
            whole, fraction = (type.length or 10) - (type.decimals or 0), type.decimals or 0
            return sum(n // 9 * 4 + (0, 1, 1, 2, 2, 3, 3, 4, 4)[n % 9] for n in (whole, fraction))
        case Family.TEXT | Family.BYTES:
            size = bytes_of(type)
            return size + (0 if type.name in ("char", "binary") else 1 if size < 256 else 2)
    raise UnsupportedType(type.name, "in a row")


def _check_default(context: Context, column: Column) -> None:
    default = column.default
    null = default is not None and default.kind == "null"
    context.limit(column.nullable or not null, f"column {column.name} is NOT NULL, with the default NULL")
    if column.auto_increment:
        context.limit(default is None or null, f"column {column.name} is AUTO_INCREMENT and has a default")
    clock = (default is not None and default.kind == "now") or column.on_update_now
    context.limit(not clock or column.type.family is Family.MOMENT, f"column {column.name} cannot follow the clock")
    if column.generated is not None:
        context.limit(default is None and not column.on_update_now, f"column {column.name} is generated: no default")
        context.limit(not column.auto_increment, f"column {column.name} is generated: no AUTO_INCREMENT")


def _check_auto_increment(context: Context, table: Table) -> None:
    counting = [column for column in table.columns if column.auto_increment]
    context.limit(len(counting) <= 1, "a table can have one AUTO_INCREMENT column only")
    for column in counting:
        context.limit(column.type.family in (Family.INTEGER, Family.FLOAT), f"column {column.name} cannot count")
        anywhere = table.engine in ("MyISAM", "ARCHIVE", "BLACKHOLE", "MRG_MYISAM")
        begins = [part.column for i in table.indexes for part in i.parts[: None if anywhere else 1]]
        keyed = any(name is not None and column.same_name(name) for name in begins)
        context.limit(keyed, f"the AUTO_INCREMENT column {column.name} is no key")


def _check_expressions(context: Context, table: Table) -> None:
    places = {column.name.lower(): i for i, column in enumerate(table.columns)}
    for place, what, text, column in _expressions(table):
        found = expression_of(context, text)
        check_functions(context, found, what, changing=column.generated is None)
        by_name = {c.name.lower(): c for c in table.columns}
        check_geometries(context, found.node, by_name, what)
        check_json_values(context, found.node, by_name, what)
        for name in found.columns:
            known = places.get(name)
            context.limit(known is not None, f"{what} refers to {name}, which is no column")
            if known is not None:
                _check_reference(context, table.columns[known], known, place, what, column)


def _expressions(table: Table) -> Iterator[tuple[int, str, str, Column]]:
    for place, column in enumerate(table.columns):
        if column.generated is not None:
            yield place, f"the generated column {column.name}", column.generated.expression, column
        if column.default is not None and column.default.kind == "expression":
            yield place, f"the default of column {column.name}", column.default.text, column


def _check_reference(context: Context, referred: Column, known: int, place: int, what: str, column: Column) -> None:
    context.limit(not referred.auto_increment, f"{what} refers to the AUTO_INCREMENT column {referred.name}")
    computed = referred.generated is not None or (
        column.generated is None and referred.default is not None and referred.default.kind == "expression"
    )
    context.limit(not computed or known < place, f"{what} refers to {referred.name}, which is computed later")


def check_functions(context: Context, found: Expression, what: str, changing: bool = False, key: bool = False) -> None:
    """Raise DdlRejected for what no expression of a table may contain; `changing` allows NOW() and the like."""
    context.limit(not found.forbidden, f"{what} contains {found.forbidden}")
    context.limit(not found.array or key, f"{what} casts to an array")
    for name in sorted(found.functions):
        allowed = function(name).allowed
        context.limit(allowed != "nowhere", f"{what} calls {name}")
        context.limit(changing or allowed == "anywhere", f"{what} calls {name}, which changes by itself")


def check_geometries(context: Context, node: Node, columns: Mapping[str, Column], what: str) -> None:
    """Raise DdlRejected for arithmetic on geometries, and for comparing their order."""
    ordered = node.kind == "compare" and node.text in ("<", "<=", ">", ">=")
    for arg in node.args:
        column = columns.get(arg.text.lower()) if arg.kind == "column" else None
        if column is not None and column.type.family is Family.GEOMETRY:
            wrong = ordered or node.kind in ("binary", "prefix", "between", "interval")
            context.limit(not wrong, f"{what} computes with the geometry {column.name}")
        check_geometries(context, arg, columns, what)


def check_json_values(context: Context, node: Node, columns: Mapping[str, Column], what: str) -> None:
    """Raise DdlRejected for JSON_VALUE of a column that holds neither JSON nor text."""
    for arg in node.args:
        column = columns.get(arg.text.lower()) if arg.kind == "column" else None
        if column is not None and node.kind == "json_value":
            known = column.type.family is Family.JSON or column.type.charset is not None
            context.limit(known, f"{what} reads JSON in {column.name}, which is neither JSON nor text")
        check_json_values(context, arg, columns, what)
