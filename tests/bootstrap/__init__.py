"""Tests of the bootstrap of targets from running clusters."""
