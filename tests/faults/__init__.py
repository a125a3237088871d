"""Faults made on purpose under load: short in the test suite, long through `python -m tests.faults.soak`."""
