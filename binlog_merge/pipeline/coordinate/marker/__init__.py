"""Coordination by markers: a row or an event that the coordinator writes says where a logical DDL takes effect."""
