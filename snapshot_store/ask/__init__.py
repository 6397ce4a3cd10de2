"""Questions to a history: shapes at a moment, differences, checks, and ALTERs between moments."""
