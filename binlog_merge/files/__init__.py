"""Binlog directories in, published files out. Durability lives here; what events mean does not."""
