"""MySQL's expressions: parsed by its grammar, printed as the server prints them."""
