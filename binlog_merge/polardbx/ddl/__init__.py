"""Converts PolarDB-X's DDL to MySQL's: private syntax is parsed, converted or removed, clause by clause."""
