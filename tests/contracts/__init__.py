"""What every adapter of a port does, as suites that its tests inherit."""
