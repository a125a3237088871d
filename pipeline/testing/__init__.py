"""For authors of a search port or an embedder: the suites that every adapter passes, and an in-memory port.

Install `lookup-stage[testing]` to use it.
"""

import pytest

# Before the suites are imported, so that their failures show both sides.
pytest.register_assert_rewrite("pipeline.testing.embedding_port", "pipeline.testing.search_port")
