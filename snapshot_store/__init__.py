"""Schemas through time: the logical and physical schema history of a whole cluster."""
