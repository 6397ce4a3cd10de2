"""Properties that must hold of any history, tried on simulated ones: a few in every test run, many by `make soak`."""
