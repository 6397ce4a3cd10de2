"""The stages and their kernels, against slow twins."""
