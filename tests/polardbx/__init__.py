"""PolarDB-X clusters for tests: data nodes' binlogs, made up or of real servers, and what must come of them.

Shares no code with the product: formats are packed and rules followed from their description alone.
"""
