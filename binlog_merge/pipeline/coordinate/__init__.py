"""Coordinate: builds both schema histories and the logical DDL with its order keys from physical DDL and markers."""
