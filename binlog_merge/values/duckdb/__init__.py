"""Expressions over batches of rows, compiled to DuckDB SQL."""
