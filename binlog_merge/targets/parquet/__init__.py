"""Replay into a change log: a Parquet file per table and run of transactions."""
