"""MySQL's SQL below the level of statements: lexer, cursor, session, names, functions, column types."""
