"""Tables as they were at a moment of a merged log, and what has changed between two, made of a base and the log."""
