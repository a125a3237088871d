"""How fast the stage is: `python -m tests.benchmarks` beside its peers, and other figures of the pages."""
