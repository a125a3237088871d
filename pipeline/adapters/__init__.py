"""Search ports: one module a technology, and what they share."""
