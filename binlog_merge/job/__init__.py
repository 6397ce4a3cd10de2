"""The merge as one job: what the driver does between the stages. Knows no engine; stages are run by a `Runner`."""
