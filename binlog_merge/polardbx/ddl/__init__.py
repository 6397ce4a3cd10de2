"""PolarDB-X's DDL as MySQL's: private syntax is read, converted or left out by name."""
