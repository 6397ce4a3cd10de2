"""Replay into a MySQL server: sessions, positions, restartable DDL."""
