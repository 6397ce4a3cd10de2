"""Random histories of a cluster as node binlogs, with what they mean: for properties that must hold of any history.

`simulate(seed, folder)` writes node files, base schemas and cluster.yaml, and returns the logical truth: every
transaction's key and row changes in order, and where each DDL stands. Bytes are packed by this package alone.
"""

from tests.simulator.simulate import Simulation, Truth, simulate

__all__ = ["Simulation", "Truth", "simulate"]
