"""MySQL's client and server protocol: packets, handshake, commands."""
