"""Tables compared and joined: the order in which one table takes the rows of another (DM: `schemacmp`)."""
