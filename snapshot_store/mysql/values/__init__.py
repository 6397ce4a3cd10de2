"""MySQL's literals and time zones."""
