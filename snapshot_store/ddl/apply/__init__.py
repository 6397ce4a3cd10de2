"""Applying a parsed DDL to a catalog."""
