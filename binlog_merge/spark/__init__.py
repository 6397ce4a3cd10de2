"""The engine: a session, a runner of tasks, and the job on them. Thin."""
