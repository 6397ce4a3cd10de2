"""Changes as messages of other makers' formats: Debezium, canal-json, Maxwell, TiCDC's open and simple protocols."""
