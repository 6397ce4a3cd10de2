"""The section of a route: which physical tables make a logical table."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from binlog_merge.config.extract import Extract, Extractor
from binlog_merge.config.section import Section
from binlog_merge.config.values import PlainName

ShardMode = Literal["marker", "pessimistic", "optimistic"]


class _Extract(Section):
    target_column: PlainName = Field(description="The name of the column.", examples=["c_table"])

    @model_validator(mode="after")
    def _check_regexp(self) -> Self:
        self.extractor()
        return self

    def extractor(self) -> Extractor:
        """Return what takes the value out of a name."""
        values = self.model_dump()
        return Extractor(next(v for k, v in values.items() if k != "target_column"), self.target_column)


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

    def settings(self) -> dict[str, Any]:
        """Return the route as plain values; what was added to routes later only where it is set."""
        values = self.model_dump(by_alias=True)
        always = ("schema-pattern", "table-pattern", "target-schema", "target-table")
        return {name: value for name, value in values.items() if name in always or value is not None}
