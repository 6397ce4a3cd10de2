"""Tests of the format layer: real bytes, strangers that read the same bytes, and bytes nobody would write."""
