"""Side-by-side measurements: the merge on Spark, the same stages without it, and other tools, on the same files.

python -m benchmarks             one JSON object, also in build/bench/result.json
python -m benchmarks.memory      what giant transactions take
python -m benchmarks.generate    node binlogs as a busy cluster writes them, to try things on
"""
