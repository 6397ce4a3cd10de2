"""Coordination by markers: a row or an event that the coordinator writes gives the key of a logical DDL."""
