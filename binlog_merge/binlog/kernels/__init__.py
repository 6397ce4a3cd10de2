"""Numba kernels over byte buffers: walking, checksums, row images. Arrays in, arrays out, no objects.

Every buffer is a writable, C-contiguous uint8 array, so that each kernel compiles once. Loads and stores are not
bounds-checked: a kernel validates every length against the event's end before it reads. Each kernel has a plain-Python
twin in `tests/`.
"""
