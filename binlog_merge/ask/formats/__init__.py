"""Changes as bytes for people and programs: a function for each format, from a selection to pieces of its text."""
