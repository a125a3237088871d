"""Set-up that every test shares."""

import os

import pytest
from hypothesis import settings

# Before the suites are imported, so that their failures show both sides.
pytest.register_assert_rewrite("pipeline.testing.embedding_port", "pipeline.testing.search_port")

pytest_plugins = ["tests.support.fixtures"]

# No deadlines: the machines that run the tests also run brokers and engines for other tests.
settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
# For `pytest --hypothesis-profile thorough`.
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
