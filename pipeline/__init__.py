"""Chunk evidence out of search hits: identity, post-processing, projection and the ports around them.

This package knows nothing of Kafka. Its core (`model`, `identity`, `processor`, `projector`, `limits`) is
pure, synchronous and needs the standard library only; `lookup` orchestrates it around the two ports.
"""
