"""Copies: tables that every node has in full. Those of one node come out; the changes of the others are compared."""
