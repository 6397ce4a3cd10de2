"""The merge as stages: what runs on the driver and what on an executor.

scan (one task per piece of a file) → assemble (driver, per node) → coordinate (driver) → order (one task per range of
order keys) → gather (one task per output file) → publish (driver). Stages pass columns to each other in Arrow files; a
task returns only counts and paths. No stage depends on an engine: a `Runner` schedules the tasks.
"""
