"""MySQL's SQL below statements: lexer, cursor, session, names, functions, column types."""
