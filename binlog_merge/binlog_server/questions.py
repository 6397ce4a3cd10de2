"""SELECTs over information_schema, and WHERE clauses of SHOW: read by sqlglot as MySQL's, answered by DuckDB.

DuckDB gets what is asked about as tables in memory, and few functions: see `in_memory`. Both are loaded when the first
such statement comes, and the tables are made once for each version of the definitions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final

from binlog_merge.binlog_server.definitions import Definitions, Moment, Row
from binlog_merge.binlog_server.dictionary import relations
from binlog_merge.binlog_server.in_memory import CASE_MATTERS, Database, Filled, in_turn, stored
from binlog_merge.binlog_server.refused import Refused, no_rows_of, unknown_table
from binlog_merge.binlog_server.show_sql import PLAIN, hidden, restored, skip_modifiers
from binlog_merge.protocol.packets import Column, ErrorCode, Value
from binlog_merge.values.duckdb.piece import Sql, double
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor, depths_of, items_of
from snapshot_store.mysql.sql.names import quote_name, quote_string
from snapshot_store.mysql.sql.session import PIPES_AS_CONCAT

_NOTHING: Final[Moment] = MappingProxyType({})
LONGEST: Final = 1 << 14
"""Characters of a statement that is parsed; parsing takes a tenth of a second for these."""
_LONGEST_CONCAT: Final = 1024
"""The default of group_concat_max_len."""
_CONCAT_LIMITS: Final = 4, 1 << 31
"""The least that it is on a server, and the most that is heeded here."""
_FUNCTIONS: Final = frozenset(
    {
        *(
            "And",
            "Or",
            "Count",
            "Min",
            "Max",
            "Sum",
            "Avg",
            "Lower",
            "Upper",
            "Length",
            "Concat",
            "ConcatWs",
            "Coalesce",
        ),
        *("If", "Case", "Cast", "Substring", "Trim", "Abs", "Round", "CurrentSchema", "CurrentDatabase", "Exists"),
        *("GroupConcat", "Left", "StrPosition"),
    }
)


def select(
    cursor: Cursor,
    definitions: Definitions,
    schema: str | None,
    moment: Moment = _NOTHING,
    longest_concat: Value = None,
) -> tuple[list[Column], list[Row]]:
    """Answer a SELECT … FROM. Raises Refused, for rows of users' tables, too.

    `schema` is the session's default, and `longest_concat` its own group_concat_max_len, in bytes, if it has one.
    """
    from sqlglot import exp

    tree = _parsed(hidden(_usual_text(cursor)))
    if not isinstance(tree, exp.Select):
        raise Refused(
            ErrorCode.ER_NOT_SUPPORTED_YET, "binlog-merge serve answers single SELECTs over information_schema"
        )
    sorts = _buffered(tree) or any(tree.find(kind) for kind in (exp.Order, exp.Group, exp.Distinct))
    aliases = {found.alias_or_name.lower() for found in tree.find_all(exp.CTE)}
    used: dict[str, Filled] = {}
    for table in list(tree.find_all(exp.Table)):
        if table.name.lower() in aliases and not table.db:
            continue
        name = _relation(table, definitions, schema)
        used[name] = _filled(name, definitions, moment)
        table.replace(exp.table_(stored(name), alias=table.alias_or_name, quoted=True))
    _check(tree, _cased(used.values()))
    tree = _made_plain(tree, schema, used.values(), longest_concat)
    names = {
        column.name.lower(): (_kept(column, name) if sorts else column, name.isupper())
        for name, table in used.items()
        for column in table.columns
    }
    with in_turn() as keep, _database_of(definitions).of(used) as run:
        described, rows = run(tree.sql(dialect="duckdb"))
        keep(rows)
    return restored(cursor.text, _described(tree, described, names, [hidden(item) for item in _items(cursor)]), rows)


def _usual_text(cursor: Cursor) -> str:
    """Return a statement as it is written under the usual sql_mode, the only one that sqlglot knows. Raises Refused.

    Under ANSI_QUOTES it would take the name "a" for a string.
    """
    session = cursor.session
    if session.sql_mode & PIPES_AS_CONCAT and "||" in cursor.text:
        raise _not_understood(cursor.text)
    if session.backslash_escapes and not session.ansi_quotes:
        return cursor.text
    pieces, written = [], 0
    for token in cursor.tokens:
        if token.kind in ("name", "string"):
            quoted = quote_name(token.text) if token.kind == "name" else quote_string(token.text)
            pieces += [cursor.text[written : token.start], quoted]
            written = token.end
    return "".join((*pieces, cursor.text[written:]))


def _buffered(tree: Any) -> bool:
    return any(word.name == "SQL_BUFFER_RESULT" for word in tree.args.get("operation_modifiers") or ())


def _kept(column: Column, table: str) -> Column:
    """Return a column of a table as it is in a result that is sorted or grouped."""
    return replace(column, kind=relations()[table].kept.get(column.name, column.kind))


def _cased(tables: Iterable[Filled]) -> frozenset[str]:
    """Return the columns whose texts compare with regard to case, in whichever of the tables they are."""
    named = [(c.name.lower(), c.name in table.cased) for table in tables for c in table.columns if not c.number]
    return frozenset(name for name, _ in named) - {name for name, cased in named if not cased}


def _numbers(tables: Iterable[Filled]) -> frozenset[str]:
    """Return the columns that are numbers, in lower case."""
    return frozenset(column.name.lower() for table in tables for column in table.columns if column.number)


def _filled(name: str, definitions: Definitions, moment: Moment) -> Filled:
    relation = relations()[name]
    if name in moment:
        return Filled(relation.columns, moment[name](), relation.cased, fleeting=True)
    return Filled(relation.columns, relation.rows(definitions), relation.cased)


def where(
    condition: str, columns: Sequence[Column], rows: Iterable[Sequence[Value]], texts: Collection[str] = ()
) -> list[Row]:
    """Return the rows of a SHOW for which its WHERE is true; `texts` is as in `_made_plain`. Raises Refused."""
    from sqlglot import exp

    tree = _parsed(f"SELECT * FROM shown WHERE {_quoted(condition, columns)}")
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Table))) != 1:
        raise _not_understood(condition)
    shown = Filled(columns, rows, {c.name for c in columns if CASE_MATTERS.fullmatch(c.name)}, fleeting=True)
    _check(tree, _cased([shown]))
    tree.find(exp.Table).replace(exp.table_(stored("shown"), alias="shown", quoted=True))
    with in_turn(), _database_of(None).of({"shown": shown}) as run:
        return run(_made_plain(tree, None, [shown], texts=texts).sql(dialect="duckdb"))[1]


def _quoted(condition: str, columns: Sequence[Column]) -> str:
    """Return a condition with names of columns quoted: to sqlglot, Charset and Key are words of the language."""
    try:
        tokens = Cursor.of(condition, PLAIN).tokens
    except DdlNotUnderstood:
        raise _not_understood(condition) from None
    names = {column.name.lower() for column in columns}
    text = condition
    for token in reversed(tokens):
        if token.kind == "word" and token.text.lower() in names:
            text = f"{text[: token.start]}`{token.text}`{text[token.end :]}"
    return text


@lru_cache(maxsize=4)
def _database_of(definitions: Definitions | None) -> Database:
    """Return the database of the tables made of some definitions; None: of those that only one question has."""
    return Database()


def _parsed(sql: str) -> Any:
    import sqlglot
    from sqlglot.errors import SqlglotError

    if len(sql) > LONGEST:
        raise Refused(
            ErrorCode.ER_NET_PACKET_TOO_LARGE, f"a SELECT over information_schema may have {LONGEST} characters"
        )
    try:
        (tree,) = sqlglot.parse(sql, dialect="mysql")
    except (SqlglotError, ValueError, RecursionError):
        raise _not_understood(sql) from None
    return tree


def _not_understood(sql: str) -> Refused:
    return Refused(ErrorCode.ER_PARSE_ERROR, f"binlog-merge serve does not understand '{' '.join(sql.split())[:80]}'")


def _relation(table: Any, definitions: Definitions, schema: str | None) -> str:
    """Return the name, as in `relations`, of the system table that is meant. Raises Refused for any other."""
    from sqlglot import exp

    if not isinstance(table.this, exp.Identifier):
        raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, "binlog-merge serve has no functions that return tables")
    database = table.db or schema
    if not database:
        raise Refused(ErrorCode.ER_NO_DB_ERROR, "No database selected")
    if database.lower() in ("performance_schema", "mysql"):
        name = f"{database.lower()}.{table.name.lower()}"
        if name not in relations():
            raise unknown_table(database.lower(), table.name)
        return name
    if database.lower() != "information_schema":
        if (database, table.name) in definitions.tables:
            raise no_rows_of(database, table.name)
        raise unknown_table(database, table.name)
    name = str(table.name.upper())
    if name not in relations():
        raise Refused(ErrorCode.ER_UNKNOWN_TABLE, f"Unknown table '{name[:64]}' in information_schema")
    return name


def _check(tree: Any, cased: Collection[str]) -> None:
    """Raise Refused for functions that are not known to be harmless, parameters, and clauses that DuckDB alone has.

    `cased` are the columns whose texts compare with regard to case, in lower case.
    """
    from sqlglot import exp

    for node in tree.walk():
        if isinstance(node, exp.Func) and type(node).__name__ not in _FUNCTIONS:
            name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
            raise Refused(ErrorCode.ER_SP_DOES_NOT_EXIST, f"FUNCTION {name[:64]} does not exist here")
        if _of_duckdb_alone(node):
            raise _not_understood(node.sql(dialect="mysql"))
        if _cased_search(node, cased) or _of_unknown_length(node):
            raise Refused(
                ErrorCode.ER_NOT_SUPPORTED_YET, "binlog-merge serve looks for signs alone by LOCATE and INSTR"
            )
        if isinstance(node, exp.GroupConcat) and any(
            isinstance(term.this, exp.Literal) for order in node.find_all(exp.Order) for term in order.expressions
        ):
            raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, "binlog-merge serve orders GROUP_CONCAT by columns alone")
        if isinstance(node, exp.GroupConcat) and any(_beyond_utf8mb3(part) for part in node.find_all(exp.Literal)):
            raise Refused(
                ErrorCode.ER_NOT_SUPPORTED_YET, "binlog-merge serve joins texts of information_schema in utf8mb3 alone"
            )
        if isinstance(node, exp.Parameter | exp.SessionParameter | exp.Placeholder | exp.Into | exp.Lock | exp.Command):
            raise _not_understood(node.sql(dialect="mysql"))


def _beyond_utf8mb3(literal: Any) -> bool:
    return max(literal.this, default="") > "\uffff"


def _of_duckdb_alone(node: Any) -> bool:
    """Return whether a clause is one that sqlglot and DuckDB know and MySQL does not."""
    from sqlglot import exp

    if isinstance(node, exp.Star):
        return bool(node.args.get("except") or node.args.get("except_") or node.args.get("replace"))
    if isinstance(node, exp.Distinct):
        return node.args.get("on") is not None
    if isinstance(node, exp.Column):
        return not isinstance(node.this, exp.Star) and node.name.lower() == "rowid"
    return isinstance(node, exp.Bracket | exp.Qualify | exp.TableSample | exp.Lambda | exp.Struct | exp.Array)


def _cased_search(node: Any, cased: Collection[str]) -> bool:
    """Return whether a text is looked for in which case may matter, which DuckDB does not know of a collation."""
    from sqlglot import exp

    if not isinstance(node, exp.StrPosition):
        return False
    sought = node.args.get("substr")
    within = node.this.this if isinstance(node.this, exp.Upper | exp.Lower) else node.this
    exact = isinstance(within, exp.Column) and within.name.lower() in cased
    plain = isinstance(sought, exp.Literal) and sought.is_string
    plain = plain and (exact or not any(c.isalpha() for c in sought.this))
    return not plain or node.args.get("position") is not None


_UNKNOWN: Final = "LOCATE or INSTR of letters, or LEFT to a number of characters that is none,"


def _of_unknown_length(node: Any) -> bool:
    """Return whether LEFT may have a negative number of characters, by which DuckDB counts from the end."""
    from sqlglot import exp

    return isinstance(node, exp.Left) and not (
        isinstance(node.expression, exp.Literal) and not node.expression.is_string
    )


_PART_OF_A_CHARACTER: Final = "^((?:..)*?)(?:[CD].|E.(?:[89AB].)?|F.(?:[89AB].){0,2})$"
"""What is before the first bytes of a character at the end of hexadecimal digits."""


def _cut(joined: Any, longest: int, cased: Collection[str]) -> Any:
    """Return GROUP_CONCAT as a server cuts it, at a number of bytes, and before a character that would not be whole.

    The engine forgets the collation of what it joins.
    """
    from sqlglot import exp

    def call(name: str, *args: Any) -> Any:
        return exp.Anonymous(this=name, expressions=list(args))

    digits = call("left", call("hex", call("encode", joined.copy())), exp.Literal.number(2 * longest))
    whole = call("regexp_replace", digits, exp.Literal.string(_PART_OF_A_CHARACTER), exp.Literal.string("\\1"))
    fits = call("strlen", joined) <= exp.Literal.number(longest)
    made = exp.case().when(fits, joined.copy()).else_(call("decode", call("unhex", whole)))
    exact = any(column.name.lower() in cased for column in joined.find_all(exp.Column))
    return made if exact else exp.paren(exp.Collate(this=exp.paren(made), expression=exp.var("NOCASE")))


def _having_as_where(tree: Any) -> None:
    """Make HAVING of a SELECT that groups nothing a WHERE: an alias goes before a column, and stands for its item."""
    from sqlglot import exp

    for select in tree.find_all(exp.Select):
        having = select.args.get("having")
        grouped = select.args.get("group") is not None or any(
            found.find_ancestor(exp.Select) is select for found in select.find_all(exp.AggFunc)
        )
        if having is None or grouped:
            continue
        items = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        _check_having(select, having, items)
        select.set("having", None)
        select.where(having.this.transform(partial(_meant, items)), copy=False)


def _check_having(select: Any, having: Any, aliases: Collection[str]) -> None:
    """Raise Refused for a column in HAVING that is not among the SELECT's items."""
    from sqlglot import exp

    if any(item.is_star for item in select.expressions):
        return
    items = {item.name.lower() for item in select.expressions if isinstance(item, exp.Column)} | set(aliases)
    for column in having.find_all(exp.Column):
        if column.find_ancestor(exp.Select) is select and column.name.lower() not in items:
            raise Refused(ErrorCode.ER_BAD_FIELD_ERROR, f"Unknown column '{column.name[:64]}' in 'having clause'")


def _meant(items: Mapping[str, Any], node: Any) -> Any:
    from sqlglot import exp

    if isinstance(node, exp.Column) and not node.table and node.name.lower() in items:
        return exp.paren(items[node.name.lower()].copy())
    return node


def _is_number(node: Any, numbers: Collection[str]) -> bool:
    """Return whether an expression is a number; `numbers` are the columns that are, in lower case."""
    from sqlglot import exp

    match node:
        case exp.Literal():
            return not node.is_string
        case exp.Column():
            return node.name.lower() in numbers
        case exp.Case():
            results = [branch.args["true"] for branch in node.args["ifs"]]
            return any(_is_number(result, numbers) for result in (*results, node.args.get("default")))
        case exp.Paren() | exp.Neg():
            return _is_number(node.this, numbers)
    return isinstance(node, exp.Add | exp.Sub | exp.Mul)


def _beside_number(column: Any, numbers: Collection[str]) -> bool:
    """Return whether a column is compared with a number, so that it is one itself."""
    from sqlglot import exp

    node = column.parent
    compared = isinstance(node, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE)
    return compared and _is_number(node.expression if node.this is column else node.this, numbers)


def _made_plain(
    tree: Any,
    schema: str | None,
    tables: Collection[Filled],
    longest_concat: Value = None,
    texts: Collection[str] = (),
) -> Any:
    """Return a tree in which what only a session knows is said, and LIKE has MySQL's escape character.

    `texts` are columns, in lower case, that a server compares with numbers by what stands at their beginning.
    """
    from sqlglot import exp, parse_one

    numbers, cased = _numbers(tables), _cased(tables)

    def plain(node: Any) -> Any:
        if isinstance(node, exp.CurrentSchema | exp.CurrentDatabase):
            return exp.Null() if schema is None else exp.Literal.string(schema)
        if isinstance(node, exp.Like) and not isinstance(node.parent, exp.Escape):
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
        if isinstance(node, exp.Select):
            node.set("operation_modifiers", None)
        if isinstance(node, exp.Column):
            node.set("db", None)
        if isinstance(node, exp.Upper | exp.Lower) and _is_number(node.this, numbers):
            return exp.cast(node.this.copy(), "text")
        if isinstance(node, exp.Column) and node.name.lower() in texts and _beside_number(node, numbers):
            return parse_one(double(Sql(node.sql(dialect="duckdb"), "string")), dialect="duckdb")
        return node

    tree.comments = None
    _having_as_where(tree)
    wanted = longest_concat if isinstance(longest_concat, int) else _LONGEST_CONCAT
    longest = min(max(wanted, _CONCAT_LIMITS[0]), _CONCAT_LIMITS[1])
    for joined in list(tree.find_all(exp.GroupConcat)):
        joined.replace(_cut(joined.copy(), longest, cased))
    return tree.transform(plain)


def _items(cursor: Cursor) -> list[str]:
    """Return the texts of a SELECT's items, a string's without quotes, up to the first FROM in no parentheses."""
    cursor.expect("SELECT")
    while cursor.accept("DISTINCT") or cursor.accept("DISTINCTROW"):
        pass
    skip_modifiers(cursor)
    begin, tokens = cursor.place, cursor.tokens
    of_it = (i for i, token, depth in depths_of(tokens, begin) if not depth and token.text.upper() == "FROM")
    end = next((i for i in of_it if tokens[i].kind == "word"), len(tokens))
    return [
        tokens[one].text
        if (one + 1, tokens[one].kind) == (last, "string")
        else cursor.text[tokens[one].start : tokens[last - 1].end]
        for one, last in items_of(tokens, begin, end)
    ]


def _described(
    tree: Any, described: Sequence[tuple[str, bool]], names: Mapping[str, tuple[Column, bool]], texts: Sequence[str]
) -> list[Column]:
    """Return a result's columns as MySQL describes them: names as in the table or the alias, types as in the table."""
    from sqlglot import exp

    items = tree.expressions if len(tree.expressions) == len(described) else [None] * len(described)
    columns = []
    for place, (item, (name, number)) in enumerate(zip(items, described, strict=True)):
        inner = item.this if isinstance(item, exp.Alias) else item
        column, view = names.get((inner.name if isinstance(inner, exp.Column) else name).lower(), (None, True))
        if inner is not None and not isinstance(inner, exp.Column | exp.Star):
            column = None
        if isinstance(item, exp.Alias):
            name = item.alias
        elif column is not None and (view or not isinstance(inner, exp.Column)):
            name = column.name
        elif item is not None:
            name = texts[place] if len(texts) == len(items) else item.sql(dialect="mysql")
        columns.append(Column(name, number) if column is None else Column(name, column.number, column.kind))
    return columns
