"""PolarDB-X as facts: its transaction ids, its virtual TSO, its marker rows and their JSON, its system tables. Pure."""
