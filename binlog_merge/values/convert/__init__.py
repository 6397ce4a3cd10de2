"""Conversion of cells from one column type to another, as ALTER TABLE ... MODIFY does it."""
