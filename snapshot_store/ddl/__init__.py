"""DDL: statements parsed, and applied to a catalog."""

from snapshot_store.ddl.apply.statement import DdlEffect, apply_ddl, apply_parsed
from snapshot_store.ddl.dump import parse_dump, split_statements
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.mysql.sql.session import DdlSession

__all__ = ["DdlEffect", "DdlSession", "ParsedDdl", "apply_ddl", "apply_parsed", "parse_dump", "split_statements"]
