"""Compares the cells of a column before and after, as `row_cells` has cut them."""

from typing import Any

from numba import njit


@njit(cache=True, nogil=True, _nrt=False)
def differing(b: Any, starts: Any, sizes: Any, column: int, out: Any) -> int:
    """Write for each row whether its cell before is not the one after; return how many differ.

    NULL equals NULL; a row without one of the images differs in all its columns.
    """
    count = 0
    for row in range(sizes.shape[2]):
        size = sizes[0, column, row]
        differs = size != sizes[1, column, row]
        if not differs:
            before, after = starts[0, column, row], starts[1, column, row]
            for i in range(max(size, 0)):
                if b[before + i] != b[after + i]:
                    differs = True
                    break
        out[row] = 1 if differs else 0
        count += 1 if differs else 0
    return count
