"""The rows of tables beside a log: kept up with it in a DuckDB file, read as of one position, told in MySQL's types."""
