"""MySQL's own rules: character sets, SQL, expressions, literals. Independent of binlogs and of the schema history."""
