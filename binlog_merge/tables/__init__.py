"""The log as tables of a DuckDB file, on which verify, serve --tables, time travel and bootstrap stand."""
