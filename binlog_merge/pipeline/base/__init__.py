"""The base of all stages: the state of a job, the runner, and values that several stages share."""
