"""Evaluation of expressions, exact and row by row; what depends on a session or a collation is refused."""
