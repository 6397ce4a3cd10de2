"""The merge as stages: what runs on the driver and what on an executor, whoever schedules it.

scan (one task per piece of a file) → assemble (driver, per node) → coordinate (driver) → order (one task per range of
order keys) → gather (one task per output file) → publish (driver). Stages hand each other columns in Arrow files; a
result row carries only counts and paths. No stage knows an engine: a `Runner` schedules the tasks.
"""
