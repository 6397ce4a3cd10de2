"""Coordination: from physical DDL and markers to logical DDL with order keys."""
