"""The section of a route: which physical tables make a logical table."""

import difflib
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from binlog_merge.config.modes import Extract, Extractor
from binlog_merge.config.values import PlainName, Section
from snapshot_store.topology import matches_pattern

_MOST_NAMED = 10

ShardMode = Literal["marker", "pessimistic", "optimistic"]


class _Extract(Section):
    target_column: PlainName = Field(description="The name of the column.", examples=["c_table"])
    key: bool = Field(
        default=False,
        description="The column is part of the primary key and of every unique one, so that keys may repeat between "
        "shards. Not with `shard-mode: marker`, where the cluster's own DDL says what the keys are.",
        examples=["true"],
    )

    @model_validator(mode="after")
    def _check_regexp(self) -> Self:
        self.extractor()
        return self

    def extractor(self) -> Extractor:
        """Return what takes the value out of a name."""
        regexp = next(value for name, value in self.model_dump().items() if name.endswith("_regexp"))
        return Extractor(regexp, self.target_column, self.key)

    def settings(self) -> dict[str, Any]:
        """Return it as plain values, as of an output that was begun before there was `key`."""
        values = self.model_dump(by_alias=True)
        return values if self.key else {name: value for name, value in values.items() if name != "key"}


def _check_values(where: str, extractor: Extractor, ids: Sequence[str]) -> None:
    """Raise ValueError if a node has no value, or two have values that are equal but for their case."""
    values = {name: extractor.value(name) for name in ids}
    first: dict[str, str] = {}
    for name, value in values.items():
        if not value:
            raise ValueError(f"{where}: {extractor.regexp!r} takes nothing out of {name!r}, and is to be part of keys")
        if values[other := first.setdefault(value.casefold(), name)] != value:
            raise ValueError(f"{where}: {values[other]!r} and {value!r} differ only in case, and are equal in a key")


class ExtractTable(_Extract):
    """Part of a physical table's name as a column of the logical table."""

    table_regexp: str = Field(
        description="A regular expression on the table's name; what its group matches is the value.",
        examples=["orders_(.*)"],
    )


class ExtractSchema(_Extract):
    """Part of a physical schema's name as a column of the logical table."""

    schema_regexp: str = Field(
        description="A regular expression on the schema's name; what its group matches is the value.",
        examples=["shop_(.*)"],
    )


class ExtractSource(_Extract):
    """Part of a node's source-id as a column of the logical table."""

    source_regexp: str = Field(
        description="A regular expression on the source-id; what its group matches is the value.", examples=["(.*)"]
    )


class CopyRule(Section):
    """Tables that every node has in full, as reference tables: those of one node come out."""

    schema_pattern: PlainName = Field(description="The schemas: `*`, `?` and `[a-z]` as in DM.", examples=["app"])
    table_pattern: PlainName = Field(description="The tables.", examples=["countries"])
    source: str | None = Field(
        default=None,
        alias="from",
        description="The source-id of the node whose rows and DDL come out; by default of the node with the lowest "
        "number. Those of the others are compared with it.",
        examples=["shard-1"],
    )

    def check(self, where: str, ids: Sequence[str]) -> None:
        """Raise ValueError if no node has the source-id."""
        if self.source is not None and self.source not in ids:
            raise ValueError(f"{where}.from: {_no_node(self.source, ids)}")


def _no_node(pattern: str, ids: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern, ids, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the nodes are {', '.join(sorted(ids)[:_MOST_NAMED])}"
    return f"no node has a source-id like {pattern!r}; {hint}"


class RouteRule(Section):
    """Which physical tables make a logical table; DM's `routes`. Patterns know `*`, `?` and `[a-z]`."""

    source_pattern: PlainName | None = Field(
        default=None,
        description="The nodes, by source-id: `*`, `?` and `[a-z]`. Without it the route is for all nodes.",
        examples=["shard-2"],
    )
    schema_pattern: PlainName = Field(
        description="The physical schemas: `*`, `?` and `[a-z]` as in DM.", examples=["shop_*"]
    )
    table_pattern: PlainName | None = Field(
        default=None,
        description="The physical tables. Without it the route is for all tables, which keep their names.",
        examples=["orders_*"],
    )
    target_schema: PlainName = Field(description="The logical schema.", examples=["shop"])
    target_table: PlainName | None = Field(default=None, description="The logical table.", examples=["orders"])
    shard_mode: ShardMode | None = Field(
        default=None,
        description="The `shard-mode` of this table, if it is not that of the cluster.",
        examples=["optimistic"],
    )
    extract_table: ExtractTable | None = Field(
        default=None, description="A column of the logical table with a part of the physical table's name."
    )
    extract_schema: ExtractSchema | None = Field(
        default=None, description="A column of the logical table with a part of the physical schema's name."
    )
    extract_source: ExtractSource | None = Field(
        default=None, description="A column of the logical table with a part of the node's source-id."
    )

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if self.target_table is not None and self.table_pattern is None:
            raise ValueError("target-table needs a table-pattern")
        self.extract()
        return self

    def extract(self) -> Extract | None:
        """Return what the route writes into columns of the logical table."""
        rules = (self.extract_table, self.extract_schema, self.extract_source)
        return Extract(*(None if r is None else r.extractor() for r in rules)) if any(rules) else None

    def check(self, where: str, ids: Sequence[str], mode: ShardMode) -> None:
        """Raise ValueError for a route that no node has, and for columns of keys that cannot tell nodes apart.

        `mode` is the cluster's.
        """
        own = [name for name in ids if matches_pattern(self.source_pattern or "*", name)]
        if not own:
            raise ValueError(f"{where}.source-pattern: {_no_node(str(self.source_pattern), ids)}")
        if self.keys() and (self.shard_mode or mode) == "marker":
            raise ValueError(
                f"{where}: key: true of {', '.join(self.keys())} with shard-mode marker, where the cluster's own DDL "
                "says what the keys are: use pessimistic or optimistic"
            )
        if self.extract_source is not None and self.extract_source.key:
            _check_values(f"{where}.extract-source", self.extract_source.extractor(), own)

    def keys(self) -> tuple[str, ...]:
        """Return the extracted columns that are part of the logical table's keys."""
        extract = self.extract()
        return () if extract is None else extract.keys

    def settings(self) -> dict[str, Any]:
        """Return the route as plain values; what was added to routes later only where it is set."""
        values = self.model_dump(by_alias=True)
        extracts: dict[str, _Extract | None] = {
            "extract-table": self.extract_table,
            "extract-schema": self.extract_schema,
            "extract-source": self.extract_source,
        }
        values |= {name: rule.settings() for name, rule in extracts.items() if rule is not None}
        always = ("schema-pattern", "table-pattern", "target-schema", "target-table")
        return {name: value for name, value in values.items() if name in always or value is not None}
