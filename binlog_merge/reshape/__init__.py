"""Reshaping: rows of a physical table become rows of the logical table; the table map is the witness."""
