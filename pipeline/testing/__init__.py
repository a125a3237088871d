"""For authors of a search port or an embedder: the suites that every adapter passes, and an in-memory port.

The suites need pytest and pytest-asyncio (`lookup-stage[testing]`), the port nothing.
"""
