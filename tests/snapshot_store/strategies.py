"""Random values of the schema model, for properties."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from snapshot_store.history import TableVersion
from snapshot_store.model import Column, Default, ForeignKey, Generated, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.tso import OrderKey

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For machines that are busy with other things."""

NAMES = st.sampled_from(["a", "b", "c", "B", "数据", "with space", "back`tick", "quote'", 'sel"ect', "key"])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)

STRING_TYPES = st.builds(
    ColumnType,
    name=st.sampled_from(["char", "varchar"]),
    length=st.integers(1, 300),
    charset=st.just("utf8mb4"),
    collation=st.sampled_from(["utf8mb4_bin", "utf8mb4_0900_ai_ci"]),
)
TYPES = st.one_of(
    st.builds(ColumnType, name=st.sampled_from(["int", "bigint", "smallint"]), unsigned=st.booleans()),
    st.builds(ColumnType, name=st.just("decimal"), length=st.integers(10, 65), decimals=st.integers(0, 10)),
    st.builds(ColumnType, name=st.sampled_from(["datetime", "time"]), fsp=st.integers(0, 6)),
    STRING_TYPES,
    st.builds(
        ColumnType,
        name=st.just("enum"),
        charset=st.just("utf16"),
        collation=st.just("utf16_bin"),
        members=st.lists(TEXT.map(lambda s: s.rstrip(" ")), min_size=1, max_size=4, unique=True).map(tuple),
    ),
    st.just(ColumnType("json")),
    st.just(ColumnType("point", srid=4326)),
)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    """A column as the server could have it."""
    type = draw(TYPES)
    expressions = st.sampled_from(["(1 + 1)", "concat(_utf8mb4')')"])
    generated = draw(st.none() | st.builds(Generated, expressions, st.booleans()))
    nullable = draw(st.booleans())
    default = Default("null") if nullable and generated is None else None
    if generated is None and type.name in ("char", "varchar", "enum") and draw(st.booleans()):
        text = draw(st.sampled_from(type.members) if type.members else TEXT)[: type.length]
        default = Default("literal", text.rstrip(" ") if type.name == "char" else text)
    return Column(name, type, nullable, default, generated=generated, invisible=draw(st.booleans()), comment=draw(TEXT))


@st.composite
def tables(draw: st.DrawFn, schema: str = "d", name: str = "t") -> Table:
    """A table as the server could have it."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique_by=lambda n: n.lower()))
    cols = tuple(draw(columns(n)) for n in names)
    can_be_key = cols[0].type.name not in ("json", "point")
    indexed, referring = draw(st.sampled_from([(False, False), (can_be_key, False), (can_be_key, can_be_key)]))
    index = Index("i", (IndexPart(names[0], descending=draw(st.booleans())),), draw(st.booleans()))
    key = ForeignKey("f", (names[0],), (None, "p"), ("x`y",), on_delete="CASCADE")
    return Table(
        schema,
        name,
        cols,
        # A table with a foreign key always has an index that serves it.
        indexes=(index,) if indexed else (),
        comment=draw(TEXT),
        checks=(("c", "(`a` > _utf8mb4')(')"),) if draw(st.booleans()) else (),
        foreign_keys=(key,) if referring else (),
    )


# Few values, so that keys meet and fall between each other.
KEYS = st.builds(OrderKey, st.integers(0, 3), st.integers(0, 1), st.integers(0, 2), st.integers(0, 1))
NODES = st.sampled_from([None, "n1", "n2"])
SIMPLE_TABLES = st.none() | st.builds(
    lambda n: Table("d", "t", (Column(n, ColumnType("int")),)), st.sampled_from(["a", "b"])
)
VERSIONS = st.lists(
    st.builds(
        TableVersion,
        KEYS,
        st.just(0),
        st.sampled_from(["d", "D"]),
        st.sampled_from(["t", "u", "表"]),
        SIMPLE_TABLES,
        node=NODES,
    ),
    max_size=25,
    unique_by=lambda v: (v.node, v.key, v.schema, v.name),
)
