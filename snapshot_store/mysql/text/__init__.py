"""MySQL's character sets: their names and numbers (`charsets`), their characters as bytes (`codecs`)."""
