"""Statements to catalogs: what a DDL makes of the tables it names."""
