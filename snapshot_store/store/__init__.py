"""The schema store: histories in a DuckDB file."""
