"""Replay: a merged binlog applied elsewhere, where a DDL holds up only its own tables."""
