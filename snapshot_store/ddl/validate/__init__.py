"""Validating a statement: raising DdlRejected for what a server would refuse."""
