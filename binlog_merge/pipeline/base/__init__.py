"""What every stage stands on: the state of a job, the runner, and values that several stages share."""
