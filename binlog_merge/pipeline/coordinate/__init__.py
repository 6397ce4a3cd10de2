"""Coordinate: turns physical DDL and markers into both schema histories and the logical DDL with its order keys."""
