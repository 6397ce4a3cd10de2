"""Text to statements: what a DDL says, before it meets any table."""
