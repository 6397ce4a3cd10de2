"""Order: puts index rows into global order, holds rows back that wait for a DDL, and cuts output files."""
