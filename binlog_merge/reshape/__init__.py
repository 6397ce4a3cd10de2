"""Reshaping: rewrites rows of a physical table as rows of the logical table, checked against the table map."""
