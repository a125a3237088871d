"""Servers, certificates and topic access for tests that need a real broker or engine."""
