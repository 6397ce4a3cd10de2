"""Order: sorts index rows into the global order, holds back rows that wait for a DDL, and cuts output files."""
