"""Parsing a DDL: from text to a statement, without looking at any table."""
