"""The stages of a merge as module-level functions of frozen values: what runs on an executor, whoever schedules it.

scan (one task per piece of a file) → assemble (driver, per node) → order (one task per key range) → gather (one task
per output file). Stages hand each other columns in Arrow files; a result row carries only counts and paths.
"""
