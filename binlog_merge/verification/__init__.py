"""Verify: judges a merged binlog by itself, against a server or against a DuckDB file."""
