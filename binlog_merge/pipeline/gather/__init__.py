"""Gather: reads byte ranges, reshapes row images as bytes, filters rows and renders events; one task per
output file.
"""
