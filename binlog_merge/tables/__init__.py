"""Replay into a DuckDB file: rows in bulk, and ALTER TABLE with MySQL's values."""
