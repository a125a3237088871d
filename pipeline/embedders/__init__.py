"""Embedding ports: one module a technology."""
