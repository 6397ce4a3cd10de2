"""The stages of the pipeline: on values, and their kernels against slow twins."""
