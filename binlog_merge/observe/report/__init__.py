"""A report on a merged log: what it holds and what is known of how it came to be, as one page or one JSON object."""
