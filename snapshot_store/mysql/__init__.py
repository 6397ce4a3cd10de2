"""What MySQL itself says: character sets and collations. Knows no binlog and no schema history."""
