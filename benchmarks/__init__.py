"""Side-by-side measurements: the merge on Spark, the same stages without it, and other tools, on the same files.

python -m benchmarks.figures     the figures of the docs, as a table: `make bench`
python -m benchmarks             all of them, one JSON object, also in build/bench/result.json: `make bench-all`
python -m benchmarks.memory      what giant transactions take
python -m benchmarks.generate    node binlogs as a busy cluster writes them, to try things on
"""
