"""MySQL's expressions: read as its grammar reads them, printed as the server prints them."""
